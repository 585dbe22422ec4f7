"""`windlass change`, `run-again`, and `retry --input`, on both stores."""

from collections.abc import Iterator

import pytest

from tests.cli.kit import fails, introduce, make_app, ok, ok_json, work
from windlass import Windlass


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose jobs the store knows."""
    found = make_app(url)
    introduce(found)
    yield found
    found.close()


def test_change(url: str, app: Windlass) -> None:
    run = app.enqueue("greet", delay="1h", tags=["a"])

    told = ok("change", run.id, "--input", '{"name": "Ada"}', "--tag", "b", "--tag", "c",
              "--timeout", "5s", "--expires", "2h", "--deadline", "2090-01-01T00:00Z",
              "--url", url)  # fmt: skip

    assert told == f"{run.id} scheduled, changed\n"
    run.refresh()
    assert (run.input, run.tags) == ({"name": "Ada"}, ("b", "c"))
    assert run.expires_at is not None
    assert run.deadline_at is not None
    assert run.deadline_at.year == 2090
    ok("change", run.id, "--no-tags", "--timeout", "none", "--expires", "none",
       "--deadline", "none", "--url", url)  # fmt: skip
    shown = ok("show", run.id, "--url", url)
    assert 'input {} → {"name": "Ada"}' in shown
    app.change(run.id, input={"name": "x" * 3_000})
    assert "input 14 → 3,011 bytes" in ok("show", run.id, "--url", url)
    bare = app.get(run.id)
    assert (bare.tags, bare.expires_at, bare.deadline_at) == ((), None, None)
    assert bare.record.options is None


def test_a_change_is_refused_in_one_sentence(url: str, app: Windlass) -> None:
    run = app.enqueue("greet")
    place = ("--url", url)
    assert fails(2, "change", run.id, *place).startswith("Say what is to change")
    told = fails(2, "change", run.id, "--tag", "a", "--no-tags", *place)
    assert told.startswith("Give --tag or --no-tags, not both.")
    assert "is not an object" in fails(2, "change", run.id, "--input", "[]", *place)
    assert "has no argument 'who'" in fails(
        2, "change", run.id, "--input", '{"who": "Ada"}', *place
    )
    run.cancel()
    assert fails(4, "change", run.id, "--tag", "a", *place) == (
        f"Run {run.id} is canceled: change is for runs that wait. Retry it with another input, or "
        f"run it again as a new run. See `windlass show {run.id}`."
    )


def test_retry_with_another_input(url: str, app: Windlass) -> None:
    run = app.enqueue("break_down", {"part": "axle"})
    work(app)

    assert ok("retry", run.id, "--input", '{"part": "wheel"}', "--url", url) == f"{run.id} queued\n"
    assert run.refresh().input == {"part": "wheel"}


def test_run_again(url: str, app: Windlass) -> None:
    old = app.enqueue("greet", {"name": "Ada"}, tags=["a"])
    assert "run_again is for runs that have ended" in fails(4, "run-again", old.id, "--url", url)
    work(app)

    first = ok("run-again", old.id, "--url", url).strip()
    shown = ok_json("run-again", old.id, "--input", '{"name": "Bob"}', "--delay", "1h", "--key",
                    "k", "--json", "--url", url)  # fmt: skip

    new = app.get(first)
    assert (new.input, new.tags, new.again_of) == ({"name": "Ada"}, ("a",), old.id)
    assert (shown["input"], shown["key"], shown["status"]) == ({"name": "Bob"}, "k", "scheduled")
    assert f"again of  {old.id}" in ok("show", first, "--url", url)


def test_many_are_changed_at_once(url: str, app: Windlass) -> None:
    runs = [app.enqueue("greet", tags=["a"], expires="1h") for _ in range(2)]

    told = ok("runs", "change", "--tag", "a", "--set-tag", "b", "--expires", "none", "--url", url)

    assert told == "2 runs changed\n"
    assert [(run.refresh().tags, run.expires_at) for run in runs] == [(("b",), None)] * 2
    told = fails(2, "runs", "change", "--tag", "a", "--url", url)
    assert told.startswith("Say what is to change")
