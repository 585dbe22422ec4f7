"""What an operator asks of a run: cancel, retry and reschedule, without a worker's part in it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fixtures.apps import working
from windlass import (
    BadOption,
    EventType,
    IllegalTransition,
    Run,
    RunExpires,
    RunNotFound,
    Status,
    Windlass,
)


@pytest.fixture
def work(app: Windlass) -> Any:
    """A job that does as it is told."""

    @app.job(max_attempts=1)
    async def work(fail: bool = False) -> str:
        if fail:
            raise ValueError("as told")
        return "done"

    return work


@pytest.mark.parametrize("delay", [0, "1h"], ids=["queued", "scheduled"])
async def test_run_that_has_not_started_is_canceled_at_once(
    app: Windlass, work: Any, delay: Any
) -> None:
    run = await work.using(delay=delay).aenqueue()
    other = await work.using(delay=delay).aenqueue()
    canceled = app.cancel(run.id, reason="no longer needed")
    assert await other.acancel() is other

    for found, reason in ((canceled, "no longer needed"), (other, None)):
        assert (found.status, found.reason) == ("canceled", reason)
        assert found.finished_at is not None
        assert (found.attempt, found.failures, found.failure, found.error) == (0, 0, None, None)
        last = (await found.aevents())[-1]
        assert last.type is EventType.CANCELED
        assert last.data == (None if reason is None else {"reason": reason})
    async with working(app) as worker:
        await worker.drained()
    assert (await app.aget(run.id)).attempt == 0  # it never started


def test_cancel_again_changes_nothing(app: Windlass, work: Any) -> None:
    run = work.enqueue()
    first = app.cancel(run.id, reason="first")
    again = app.cancel(run.id, reason="second")
    assert again.record == first.record
    assert run.cancel().reason == "first"
    assert len(run.events()) == 2


async def finished(app: Windlass, work: Any) -> tuple[Run, Run]:
    """A run that succeeded and one that failed."""
    good, bad = await work.aenqueue(), await work.aenqueue(fail=True)
    async with working(app):
        await good.await_end(timeout=10)
        await bad.await_end(timeout=10)
    return good, bad


async def test_finished_run_cannot_be_canceled(app: Windlass, work: Any) -> None:
    for run in await finished(app, work):
        before = run.record
        with pytest.raises(IllegalTransition) as caught:
            await run.acancel()
        assert str(caught.value) == (
            f"Run {run.id} is {run.status.value}: cancel is for runs that have not ended."
        )
        assert run.refresh().record == before


async def test_failed_run_can_be_retried(app: Windlass, work: Any) -> None:
    _, run = await finished(app, work)
    assert (run.status, run.attempt, run.failures) == ("failed", 1, 1)

    again = app.retry(run.id, max_attempts=2)
    assert (again.status, again.attempt, again.failures) == ("queued", 1, 0)
    assert (again.failure, again.finished_at) == (None, None)
    async with working(app):
        await run.await_end(timeout=10)
    # Two more failures were allowed, and the attempts go on counting.
    assert (run.status, run.attempt, run.failures) == ("failed", 3, 2)
    assert [attempt.attempt for attempt in run.attempts] == [1, 2, 3]
    assert EventType.RETRIED in [event.type for event in run.events()]


async def test_canceled_run_can_be_retried(app: Windlass, work: Any) -> None:
    run = (await work.using(delay="1h").aenqueue()).cancel("a mistake")
    assert await run.aretry() is run
    assert (run.status, run.reason) == ("queued", None)
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "done"


async def test_retry_wakes_a_worker(app: Windlass, work: Any) -> None:
    run = work.enqueue().cancel()
    async with working(app, poll=60.0, sweep=5.0) as worker:
        await worker.drained()
        await app.aretry(run.id)
        assert await app.aresult(run.id, timeout=10) == "done"


async def test_only_what_ended_badly_can_be_retried(app: Windlass, work: Any) -> None:
    good, _ = await finished(app, work)
    waiting = [work.enqueue(), work.using(delay="1h").enqueue()]
    for run in (good, *waiting):
        with pytest.raises(IllegalTransition, match=f"is {run.status.value}: retry is for failed"):
            app.retry(run.id)
        with pytest.raises(IllegalTransition):
            await run.aretry()
        assert run.refresh().attempt == (1 if run is good else 0)


# -- reschedule ------------------------------------------------------------------------------


async def test_run_that_waits_can_be_moved(app: Windlass, work: Any) -> None:
    run = await work.using(key="k", tags=["t"]).aenqueue()
    moved = app.reschedule(run.id, delay="2h")
    assert (moved.status, moved.id) == ("scheduled", run.id)
    assert moved.due_at == moved.scheduled_for
    assert moved.due_at is not None
    assert moved.due_at - moved.updated_at == timedelta(hours=2)
    assert (moved.key, moved.tags) == ("k", ("t",))

    at = datetime(2090, 1, 31, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    assert await run.areschedule(at=at) is run
    assert run.due_at == run.scheduled_for == at
    last = (await run.aevents())[-1]
    assert (last.type, last.data) == (EventType.RESCHEDULED, {"at": "2090-01-31T11:00:00Z"})
    async with working(app) as worker:
        await worker.drained()
    assert (await run.arefresh()).attempt == 0  # its time has not come


async def test_failed_run_can_be_run_again_at_a_time(app: Windlass, work: Any) -> None:
    _, run = await finished(app, work)
    again = await app.areschedule(run.id, delay=timedelta(hours=1))
    assert (again.status, again.attempt, again.failures) == ("scheduled", 1, 0)
    assert (again.failure, again.finished_at) == (None, None)
    assert not app.list(dead=True)

    assert run.reschedule(at=datetime(2020, 2, 29, tzinfo=UTC)) is run
    assert (run.status, run.due_at) == ("queued", None)
    async with working(app):
        await run.await_end(timeout=10)
    assert (run.status, run.attempt, run.failures) == ("failed", 2, 1)


@pytest.mark.parametrize("twin", [False, True], ids=["sync", "async"])
async def test_reschedule_to_now_wakes_a_worker(app: Windlass, work: Any, twin: bool) -> None:
    run = work.using(delay="1h").enqueue()
    async with working(app, poll=60.0, sweep=5.0) as worker:
        await worker.drained()
        if twin:
            await app.areschedule(run.id, delay=0)
        else:
            app.reschedule(run.id, delay=0)
        assert await app.aresult(run.id, timeout=10) == "done"


async def test_reschedule_to_soon_is_not_slept_through(app: Windlass, work: Any) -> None:
    run = work.using(delay="1h").enqueue()
    async with working(app, lease=600.0, poll=60.0, sweep=60.0) as worker:
        await worker.drained()
        await run.areschedule(delay="50ms")
        assert await app.aresult(run.id, timeout=10) == "done"


async def test_run_that_succeeded_cannot_be_moved(app: Windlass, work: Any) -> None:
    good, _ = await finished(app, work)
    before = good.refresh().record
    with pytest.raises(IllegalTransition) as caught:
        app.reschedule(good.id, delay="1h")
    assert str(caught.value) == (
        f"Run {good.id} is succeeded: "
        "reschedule is for runs that wait, and for failed and canceled ones."
    )
    with pytest.raises(IllegalTransition):
        await good.areschedule(delay=0)
    assert good.refresh().record == before


async def test_run_that_runs_cannot_be_moved(app: Windlass) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def wait() -> str:
        started.set()
        await go.wait()
        return "done"

    run = await wait.aenqueue()
    async with working(app):
        await asyncio.wait_for(started.wait(), 10)
        with pytest.raises(IllegalTransition, match="is running: reschedule is for runs that wait"):
            await run.areschedule(delay="1h")
        go.set()
        assert await app.aresult(run.id, timeout=10) == "done"


async def test_run_is_not_moved_beyond_its_expiry(app: Windlass, work: Any) -> None:
    run = work.using(expires="1h").enqueue()
    assert run.reschedule(delay="59m").status == "scheduled"
    before = run.record
    with pytest.raises(RunExpires, match=rf"Run {run.id} is over at .*Z and cannot wait until"):
        app.reschedule(run.id, delay="2h")
    with pytest.raises(RunExpires) as caught:
        await run.areschedule(delay="2h")
    assert datetime.fromisoformat(caught.value.expires_at) == run.expires_at
    assert run.refresh().record == before
    # Canceled, it ends; reopened, it expires no more.
    run.cancel().reschedule(delay="2h")
    assert (run.status, run.expires_at) == ("scheduled", None)


def test_unknown_run_cannot_be_moved(app: Windlass) -> None:
    for run in ("nobody", "00000000-0000-7000-8000-000000000000"):
        with pytest.raises(RunNotFound, match=run):
            app.reschedule(run, delay=0)


async def test_key_still_names_a_run_that_was_canceled(app: Windlass, work: Any) -> None:
    run = work.using(key="k").enqueue().cancel()
    again = work.using(key="k").enqueue()
    assert (again.id, again.status) == (run.id, Status.CANCELED)


async def test_a_waiting_run_gets_another_place(app: Windlass, work: Any) -> None:
    run = await work.aenqueue()

    await run.areprioritize(priority=5, queue="fast")
    assert (run.priority, run.queue) == (5, "fast")
    assert app.reprioritize(run.id, priority=-1).priority == -1
    assert (await app.areprioritize(run.id, queue="slow")).queue == "slow"


@pytest.mark.parametrize(
    ("place", "option"),
    [({}, "priority"), ({"priority": 99999}, "priority"), ({"queue": "a b"}, "queue")],
)
def test_a_bad_place_is_refused(work: Any, place: dict[str, Any], option: str) -> None:
    run = work.enqueue()
    with pytest.raises(BadOption) as caught:
        run.reprioritize(**place)
    assert caught.value.option == option
