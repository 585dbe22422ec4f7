"""`windlass logs`: what the handler of a run has logged."""

from __future__ import annotations

import json
import threading

import pytest

from tests.cli.kit import PATIENCE, fails, ok, run
from windlass import Retry, RunFailed, SyncContext, Windlass


def test_lines_are_shown_by_attempt_and_as_json(url: str) -> None:
    app = Windlass(url, poll="50ms")

    @app.job(retry=Retry.fixed("1ms"), max_attempts=2)
    def work(ctx: SyncContext) -> None:
        ctx.log.warning("attempt %d\nbegins\x1b[31m", ctx.attempt, extra={"order": 7})
        raise ValueError

    made = work.enqueue()
    with app.running_in_thread(), pytest.raises(RunFailed):
        app.result(made, timeout=PATIENCE)

    text = ok("logs", made.id, "--url", url)
    first, line, rest, second, *_ = text.splitlines()
    assert (first, second) == ("attempt 1", "attempt 2")
    assert line.endswith("WARNING  attempt 1 order=7")
    assert rest == "  | begins\\x1b[31m"
    (only,) = ok("logs", made.id, "--attempt", "2", "--json", "--url", url).splitlines()
    document = json.loads(only)
    assert document.pop("at")
    assert document == {
        "attempt": 2,
        "number": 0,
        "level": "WARNING",
        "logger": "windlass.run",
        "message": "attempt 2\nbegins\x1b[31m",
        "fields": {"order": 7},
    }
    app.close()


def test_lines_are_followed_until_the_run_has_ended(url: str) -> None:
    app, go = Windlass(url, poll="50ms"), threading.Event()

    @app.job
    def work(ctx: SyncContext) -> None:
        ctx.log.warning("begun")
        assert go.wait(PATIENCE)
        ctx.log.warning("done")

    def let_go() -> None:
        while not app.logs(made.id):
            threading.Event().wait(0.02)
        go.set()

    made = work.enqueue()
    with app.running_in_thread():
        threading.Thread(target=let_go, daemon=True).start()
        text = ok("logs", made.id, "--follow", "--url", url)
    assert [line.split()[-1] for line in text.splitlines()] == ["1", "begun", "done"]
    app.close()


def test_nothing_logged_and_unknown_runs_are_said(url: str) -> None:
    app = Windlass(url)

    @app.job
    def work() -> None: ...

    made = work.enqueue()
    result = run("logs", made.id, "--url", url)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Nothing was logged.\n")
    assert "There is no run" in fails(
        3, "logs", "0197c0de-0000-7000-8000-000000000000", "--url", url
    )
    app.close()
