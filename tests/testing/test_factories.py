"""Runs in any status, by real operations."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import BadOption, Failure, Job, Status, Windlass
from windlass.testing import VirtualClock, amake_run, drain, make_run

MADE = [s for s in Status if s not in (Status.WAITING, Status.PAUSED)]


@pytest.fixture
def job(app: Windlass) -> Job[Any, Any, Any]:
    """A job whose handler is never called here."""

    @app.job
    def job(n: int = 0) -> int:
        return n

    return job


@pytest.mark.parametrize("status", MADE)
def test_run_in_any_status(app: Windlass, job: Job[Any, Any, Any], status: Status) -> None:
    run = make_run(app, job.using(tags=["t"]).request(n=7), status=status)
    assert (run.status, run.input, run.tags) == (status, {"n": 7}, ("t",))
    assert run.record == app.get(run.id).record
    assert [r.id for r in app.list(status=status)] == [run.id]


@pytest.mark.parametrize("failure", list(Failure))
def test_run_that_failed_in_any_way(
    app: Windlass, job: Job[Any, Any, Any], failure: Failure
) -> None:
    run = make_run(app, job, status="failed", failure=failure)
    counted = failure not in (Failure.EXPIRED, Failure.CRASHED)
    assert (run.status, run.failure, run.failures) == ("failed", failure, int(counted))
    assert [r.id for r in app.list(dead=True)] == [run.id]


def test_details_are_as_wished(app: Windlass, job: Job[Any, Any, Any]) -> None:
    failed = make_run(app, job, status="failed", failures=3, error=KeyError("k"), failure="fatal")
    assert (failed.failures, failed.attempt, len(failed.attempts)) == (3, 3, 3)
    assert failed.error is not None
    assert failed.error.type == "KeyError"
    late = make_run(app, job, status=Status.SUCCEEDED, failures=2, result={"n": [1]})
    assert (late.result, late.attempt, late.failures) == ({"n": [1]}, 3, 2)
    assert make_run(app, job, status="canceled", reason="why").reason == "why"
    waits = make_run(app, job, status="scheduled", failures=1)
    assert (waits.record.waiting_for, waits.failures) == ("backoff", 1)
    assert make_run(app, job, status="queued", failures=1).attempt == 1


def test_made_runs_go_on_as_others_do(
    app: Windlass, clock: VirtualClock, job: Job[Any, Any, Any]
) -> None:
    scheduled = make_run(app, job, status="scheduled", failures=1)
    make_run(app, job, status="queued")
    make_run(app, job, status="failed").retry()
    running = make_run(app, job, status="running")
    assert drain(app).attempts == 2
    clock.advance("1h")
    assert {run.id for run in drain(app).check().runs} == {scheduled.id, running.id}


def test_impossible_wishes_are_refused(app: Windlass, job: Job[Any, Any, Any]) -> None:
    for wish in (
        {"status": "waiting"},
        {"status": "failed", "failures": 0},
        {"status": "failed", "failure": "expired", "failures": 1},
        {"status": "succeeded", "request": True},
    ):
        request = job.using(delay="1h").request() if wish.pop("request", None) else job
        with pytest.raises(BadOption):
            make_run(app, request, **wish)


async def test_async_twin(app: Windlass, job: Job[Any, Any, Any]) -> None:
    run = await amake_run(app, job, status="succeeded", result=1)
    assert (await app.aresult(run.id)) == 1
