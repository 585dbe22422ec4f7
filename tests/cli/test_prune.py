"""`windlass prune`, and what `show` and `stats` say of retention, on both stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.kit import fails, make_app, ok, ok_json
from windlass import Run, Windlass
from windlass.errors import RunNotFound


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    found = make_app(url)
    found.migrate()
    yield found
    found.close()


def canceled(app: Windlass) -> Run:
    run = app.jobs["greet"].enqueue(name="x")
    return run.cancel()


def test_what_fits_is_counted_and_then_deleted(url: str, app: Windlass) -> None:
    gone, live = canceled(app), app.jobs["greet"].enqueue(name="x")
    asked = ("prune", "--older-than", "0s", "--url", url)
    assert ok(*asked, "--dry-run") == "1 run would be deleted\n"
    assert ok(*asked, "--status", "failed") == "0 runs deleted\n"
    assert ok(*asked, "--job", "other") == "0 runs deleted\n"
    assert ok("prune", "--url", url) == "0 runs deleted\n"  # it has not ended 30 days ago
    assert ok_json(*asked, "--json") == {"deleted": 1, "kept": 0}
    with pytest.raises(RunNotFound):
        gone.refresh()
    assert live.refresh().status == "queued"


def test_only_what_has_ended_can_be_meant(url: str, app: Windlass) -> None:
    assert "'queued' is not one of" in fails(2, "prune", "--status", "queued", "--url", url)


def test_show_says_when_a_run_goes(url: str, app: Windlass) -> None:
    run = canceled(app)
    lines = ok("show", run.id, "--url", url).splitlines()
    (line,) = [line for line in lines if line.startswith("deleted")]
    assert "or a little later" in line
    shown = ok_json("show", run.id, "--url", url, "--json")
    assert shown["deletes_at"] > shown["finished_at"]
    assert shown["stale_at"] is None


def test_stats_say_how_large_the_store_is(url: str, app: Windlass) -> None:
    canceled(app)
    assert "The store has " in ok("stats", "--url", url).splitlines()[-1]
    assert ok_json("stats", "--url", url, "--json")["store"]["bytes"] > 0
