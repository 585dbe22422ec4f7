"""`windlass dead`: looking at dead letters, and acting on many of them, on both stores."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.kit import fails, make_app, ok, ok_json, run, work
from windlass import Run, Windlass
from windlass.cli import main


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application with dead letters."""
    found = make_app(url)
    yield found
    found.close()


@pytest.fixture
def letters(app: Windlass) -> list[Run]:
    """Two of one kind and one of another, the oldest first; beside them a good run."""
    found = [app.enqueue("break_down", {"part": part}) for part in ("axle", "wheel")]
    found.append(app.enqueue("refuse"))
    app.enqueue("greet")
    work(app)
    return [run.refresh() for run in found]


def statuses(letters: list[Run]) -> list[str]:
    return [run.refresh().status.value for run in letters]


def test_alone_it_counts_by_job_and_error(url: str, letters: list[Run]) -> None:
    titles, first, second = ok("dead", "--url", url).splitlines()

    assert titles.split() == ["COUNT", "JOB", "FAILURE", "LATEST", "RUN", "ERROR"]
    assert first.split()[:3] == ["2", "break_down", "exhausted"]
    assert first.endswith(f"{letters[1].id}  ValueError: wheel broke\\x1b[31m")
    assert second.split()[:3] == ["1", "refuse", "fatal"]
    assert second.endswith("Fatal: no")


def test_the_counts_as_json(url: str, letters: list[Run]) -> None:
    found: Any = ok_json("dead", "--url", url, "--json")

    assert [(g["job"], g["failure"], g["error"], g["count"], g["run"]) for g in found] == [
        ("break_down", "exhausted", "ValueError", 2, letters[1].id),
        ("refuse", "fatal", "windlass.domain.policy.Fatal", 1, letters[2].id),
    ]
    assert found[0]["latest"] == letters[1].to_dict()["finished_at"]


def test_list(url: str, letters: list[Run]) -> None:
    def ids(*options: str) -> list[str]:
        return [run["id"] for run in ok_json("dead", "list", "--url", url, "--json", *options)]

    newest_first = [run.id for run in reversed(letters)]
    assert ids() == newest_first
    assert ids("--job", "break_down") == newest_first[1:]
    assert ids("--failure", "fatal") == newest_first[:1]
    assert ids("--error", "Fatal") == newest_first[:1]
    assert ids("--error", "windlass.domain.policy.Fatal") == newest_first[:1]
    assert ids("--error", "KeyError") == []
    assert ids("--limit", "2") == newest_first[:2]
    assert [line.split()[0] for line in ok("dead", "list", "--url", url).splitlines()] == (
        newest_first
    )


def test_nothing_is_dead(url: str, app: Windlass) -> None:
    app.migrate()

    assert ok("dead", "--url", url) == "There are no dead letters.\n"
    assert run("dead", "list", "--url", url).stderr == "There are no dead letters.\n"
    assert ok("dead", "--job", "x", "--url", url) == "No dead letters match.\n"
    assert fails(1, "dead", "retry", "--all", "--url", url) == "There are no dead letters."
    assert fails(1, "dead", "discard", "--job", "x", "--url", url) == "No dead letters match."


def test_retry_those_selected(url: str, letters: list[Run]) -> None:
    assert ok("dead", "retry", "--job", "break_down", "--url", url) == "retried 2 runs\n"

    assert statuses(letters) == ["queued", "queued", "failed"]


def test_discard_those_selected(url: str, letters: list[Run]) -> None:
    assert ok("dead", "discard", "--failure", "fatal", "--url", url) == "discarded 1 run\n"

    assert [g["job"] for g in ok_json("dead", "--url", url, "--json")] == ["break_down"]
    assert statuses(letters) == ["failed"] * 3
    assert "(discarded)" in ok("show", letters[2].id, "--url", url)


def test_all_of_them_over_several_pages(
    url: str, letters: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.client.bulk.FOUND_AT_ONCE", 1)

    assert ok_json("dead", "retry", "--all", "--json", "--url", url) == {"retried": 3, "skipped": 0}
    assert statuses(letters) == ["queued"] * 3


def _module() -> Any:
    main.get_command(None, "dead")  # type: ignore[arg-type]
    return sys.modules["windlass.cli.dead"]


def test_named_ones(url: str, letters: list[Run]) -> None:
    one, two, three = (run.id for run in letters)

    assert ok("dead", "retry", one, "--url", url) == f"{one} queued\n"
    assert ok("dead", "discard", two, three, "--url", url) == (
        f"{two} discarded\n{three} discarded\n"
    )
    assert f"Run {two} is discarded: discard is for failed runs that are not" in fails(
        4, "dead", "discard", two, "--url", url
    )
    assert f"Run {one} is queued: discard is for failed runs" in fails(
        4, "dead", "discard", one, "--url", url
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["retry"], "Name runs, or give --job, --failure, --error or --all."),
        (["discard"], "Name runs, or give --job, --failure, --error or --all."),
        (["retry", "x", "--all"], "Name runs or select them, not both."),
        (["list", "x"], "RUN, --all and --yes go with retry and discard."),
        (["--all"], "RUN, --all and --yes go with retry and discard."),
        (["bury"], "Invalid value for '[list|retry|discard]': 'bury' is not one of"),
        (["--failure", "bad"], "Invalid value for '--failure': 'bad' is not one of"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    assert told in fails(2, "dead", *arguments)


@pytest.mark.parametrize(
    ("answer", "code", "told", "expected"),
    [("y\n", 0, "retried 3 runs\n", "queued"), ("n\n", 1, "", "failed"), ("", 1, "", "failed")],
)
def test_all_asks_on_a_terminal(
    url: str,
    letters: list[Run],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    told: str,
    expected: str,
) -> None:
    monkeypatch.setattr(_module(), "_interactive", lambda: True)

    result = CliRunner().invoke(main, ["dead", "retry", "--all", "--url", url], input=answer)

    assert (result.exit_code, result.stdout) == (code, told)
    assert "Retry all 3 dead letters? [y/N]:" in result.stderr
    assert statuses(letters) == [expected] * 3


def test_question_about_one_is_in_the_singular(
    url: str, letters: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_module(), "_interactive", lambda: True)
    ok("dead", "discard", letters[0].id, letters[1].id, "--url", url)

    result = CliRunner().invoke(main, ["dead", "discard", "--all", "--url", url], input="y\n")

    assert "Discard 1 dead letter? [y/N]:" in result.stderr
    assert result.stdout == "discarded 1 run\n"


def test_yes_does_not_ask(url: str, letters: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_module(), "_interactive", lambda: True)

    assert ok("dead", "discard", "--all", "--yes", "--url", url) == "discarded 3 runs\n"
