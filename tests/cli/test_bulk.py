"""`windlass runs cancel` and its like, and ids of which only the beginning is given."""

from collections.abc import Iterator

import pytest

from tests.cli.kit import fails, make_app, ok, ok_json, run, work
from windlass import Run, Windlass
from windlass.cli.bulk import COMMANDS
from windlass.domain.bulk import BULK_VERBS


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose runs the command works on."""
    found = make_app(url)
    found.migrate()
    yield found
    found.close()


@pytest.fixture
def waiting(app: Windlass) -> list[Run]:
    """Three runs of one job, and one of another."""
    app.enqueue("refuse")
    return [app.enqueue("greet") for _ in range(3)]


def statuses(runs: list[Run]) -> list[str]:
    return [each.refresh().status.value for each in runs]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is there to answer."""
    monkeypatch.setattr("windlass.cli.bulk.interactive", lambda: True)


def test_every_verb_for_many_is_a_command() -> None:
    assert set(COMMANDS) == set(BULK_VERBS)


def test_a_dry_run_shows_some_and_changes_nothing(url: str, waiting: list[Run]) -> None:
    told = ok("runs", "cancel", "--job", "greet", "--status", "queued", "--dry-run", "--url", url)

    lines = told.splitlines()
    assert [line.split()[0] for line in lines[:3]] == [each.id for each in reversed(waiting)]
    assert lines[3:] == ["3 runs would be canceled"]
    assert statuses(waiting) == ["queued"] * 3


def test_all_that_are_selected_are_canceled(url: str, app: Windlass, waiting: list[Run]) -> None:
    told = ok("runs", "cancel", "--job", "greet", "--reason", "old", "--url", url)

    assert told == "3 runs canceled\n"
    assert {each.refresh().reason for each in waiting} == {"old"}
    assert app.list(job="refuse")[0].status == "queued"
    result = run("runs", "cancel", "--job", "greet", "--url", url)
    assert (result.exit_code, result.stderr) == (1, "windlass: No runs match.\n")


def test_every_other_verb(url: str, app: Windlass, waiting: list[Run]) -> None:
    place = ("--url", url)
    greet = ("--job", "greet", *place)

    assert ok("runs", "reprioritize", "--priority", "4", "--to-queue", "slow", *greet) == (
        "3 runs moved\n"
    )
    assert {(each.refresh().priority, each.queue) for each in waiting} == {(4, "slow")}
    assert ok("runs", "reschedule", "--delay", "1h", *greet) == "3 runs rescheduled\n"
    assert statuses(waiting) == ["scheduled"] * 3
    ok("runs", "cancel", *greet)
    assert run("runs", "retry", *greet).exit_code == 1, "canceled ones have to be named"
    assert ok("runs", "retry", "--status", "canceled", "--max-attempts", "2", *greet) == (
        "3 runs retried\n"
    )
    bad = app.enqueue("break_down", {"part": "axle"})
    work(app)
    assert ok_json("runs", "discard", "--error", "ValueError", "--json", *place) == {
        "verb": "discard", "dry_run": False, "done": 1, "refused": {}, "sample": [],
    }  # fmt: skip
    assert bad.refresh().record.discarded_at is not None


def test_what_was_left_out_is_said_with_its_reason(url: str, waiting: list[Run]) -> None:
    waiting[0].cancel()

    result = run("runs", "reprioritize", "--job", "greet", "--status", "queued,canceled",
                 "--priority", "1", "--url", url)  # fmt: skip

    assert result.exit_code == 0
    assert result.stdout == "2 runs moved\n1 run left out: canceled\n"
    assert f"Run {waiting[0].id} is canceled" in result.stderr
    nothing = run("runs", "reprioritize", "--status", "canceled", "--priority", "1", "--url", url)
    assert (nothing.exit_code, nothing.stdout) == (
        4, "0 runs moved\n1 run left out: canceled\n",
    )  # fmt: skip


def test_a_person_is_asked(url: str, waiting: list[Run], answering: None) -> None:
    command = ("runs", "cancel", "--job", "greet", "--url", url)

    no = run(*command, input="n\n")
    assert no.exit_code == 1
    assert "Cancel 3 runs? [y/N]: " in no.stderr
    assert no.stderr.endswith("windlass: Nothing was done.\n")
    assert statuses(waiting) == ["queued"] * 3
    assert run(*command, input="y\n").stdout == "3 runs canceled\n"
    waiting[0].retry()
    assert ok(*command, "--yes") == "1 run canceled\n"
    waiting[0].retry()
    assert ok(*command, "--dry-run").endswith("1 run would be canceled\n")


def test_all_runs_must_be_meant(url: str, app: Windlass, waiting: list[Run]) -> None:
    assert fails(2, "runs", "cancel", "--url", url).startswith(
        "Give a filter, such as --job, or --all if you mean all runs."
    )
    assert "not both" in fails(2, "runs", "cancel", "--all", "--job", "greet", "--url", url)
    assert statuses(waiting) == ["queued"] * 3
    assert ok("runs", "cancel", "--all", "--url", url) == "4 runs canceled\n"


def test_options_before_the_verb_are_refused_and_the_place_is_not(
    url: str, waiting: list[Run]
) -> None:
    told = fails(2, "runs", "--job", "greet", "cancel", "--all", "--url", url)
    assert told.startswith("Give --job after the verb: `windlass runs cancel --job …`.")
    assert "--limit" in fails(2, "runs", "--limit", "1", "cancel", "--all", "--url", url)
    assert statuses(waiting) == ["queued"] * 3
    assert ok("runs", "--url", url, "cancel", "--job", "greet") == "3 runs canceled\n"


def test_wrong_options(url: str, waiting: list[Run]) -> None:
    assert "either --at or --delay" in fails(
        2, "runs", "reschedule", "--job", "greet", "--url", url
    )
    assert "--priority, --to-queue" in fails(
        2, "runs", "reprioritize", "--job", "greet", "--url", url
    )
    assert "--max-attempts" in fails(
        2, "runs", "retry", "--job", "greet", "--max-attempts", "0", "--url", url
    )


# -- ids ------------------------------------------------------------------------------------------


def test_the_beginning_of_an_id_stands_for_it_everywhere(
    url: str, app: Windlass, waiting: list[Run]
) -> None:
    one, two, three = waiting
    short = one.id[:-1]
    place = ("--url", url)

    assert ok("show", short, *place) == ok("show", one.id, *place)
    assert ok("reprioritize", short, "--priority", "3", *place).startswith(f"{one.id} queued")
    assert ok("reschedule", short, "--delay", "1h", *place).startswith(f"{one.id} scheduled")
    assert ok("cancel", short, two.id, *place) == f"{one.id} canceled\n{two.id} canceled\n"
    assert ok("retry", short, *place) == f"{one.id} queued\n"
    assert [each["id"] for each in ok_json("runs", "--before", two.id[:-1], "--json", *place)] == [
        each.id for each in app.list(before=two.id)
    ]
    bad = app.enqueue("break_down", {"part": "axle"})
    work(app)
    assert ok("dead", "discard", bad.id[:-1], *place) == f"{bad.id} discarded\n"
    assert three.refresh().status == "succeeded"


def test_an_ambiguous_beginning_lists_the_candidates(url: str, waiting: list[Run]) -> None:
    told = fails(3, "show", waiting[0].id[:8], "--url", url)

    assert told.startswith(f"Several runs begin with {waiting[0].id[:8]}: ")
    assert all(each.id in told for each in waiting)
    one_ends = run("cancel", waiting[0].id[:8], waiting[1].id, "--url", url)
    assert (one_ends.exit_code, one_ends.stdout) == (3, f"{waiting[1].id} canceled\n")


def test_a_short_beginning_is_refused(url: str, waiting: list[Run]) -> None:
    told = fails(2, "show", waiting[0].id[:7], "--url", url)

    assert told.startswith(
        f"Run '{waiting[0].id[:7]}' is too short: give at least 8 digits of the id."
    )
