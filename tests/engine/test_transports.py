"""The same scenarios through every transport, and through one that loses, doubles and reorders."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, QUICK, at_rest, hub_of, within, working
from windlass import AttemptOutcome, Context, Failure, Retry, Run, Snooze, Status, Windlass
from windlass.domain.run import Claimed, Want, WorkerInfo
from windlass.transport.interface import Transport, encode_message
from windlass.transport.memory import MemoryTransport
from windlass.transport.store import StoreTransport

RESEND_AFTER = 0.2
SETTINGS: dict[str, Any] = dict(QUICK)


class BadTransport(MemoryTransport):
    """Loses every third message, doubles every other third, and brings the rest backwards."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0
        self.lost = 0

    def publish(self, messages: Sequence[bytes]) -> None:
        """Pass on what is left of the messages, and some that are none of ours."""
        kept: list[bytes] = [b"", b'{"version": 2}', b'{"version": 1, "windlassRunId": "x"}']
        for message in messages:
            self._seen += 1
            copies = (1, 0, 2)[self._seen % 3]
            self.lost += copies == 0
            kept += [message] * copies
        super().publish(list(reversed(kept)))


TRANSPORTS: Sequence[Callable[[], Transport]] = (StoreTransport, MemoryTransport, BadTransport)


@pytest.fixture(params=TRANSPORTS, ids=lambda made: made.__name__)
async def app(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Windlass]:
    """An application with a transport, on each store."""
    made = Windlass(url, transport=request.param(), **SETTINGS)
    try:
        yield made
    finally:
        await made.aclose()


async def ended(app: Windlass, runs: Sequence[str]) -> None:
    """Wait until runs have ended."""
    for run in runs:
        await app.await_end(run, timeout=PATIENCE)


async def test_every_run_succeeds_once(app: Windlass) -> None:
    seen: Counter[int] = Counter()

    @app.job
    async def count(n: int) -> int:
        seen[n] += 1
        return n

    @app.job
    def count_in_thread(n: int) -> int:
        seen[n] += 1
        return n

    async with working(app, resend_after=RESEND_AFTER):
        runs = [await count.aenqueue(n=n) for n in range(20)]
        runs += await app.aenqueue_many([count_in_thread.request(n=n) for n in range(20, 60)])
        await ended(app, [run.id for run in runs])

    assert seen == Counter(range(60))
    found = await app.alist(limit=100)
    assert {(run.status, run.attempt) for run in found} == {(Status.SUCCEEDED, 1)}


async def test_runs_enqueued_before_there_was_a_worker_are_found(app: Windlass) -> None:
    @app.job
    async def nothing() -> None: ...

    runs = await app.aenqueue_many([nothing.request() for _ in range(30)])
    if isinstance(app.transport, MemoryTransport):
        # The process that had published them is gone.
        await app.transport.receive(1000)

    async with working(app, resend_after=RESEND_AFTER):
        await ended(app, [run.id for run in runs])


async def test_more_runs_than_seats_all_get_theirs(app: Windlass) -> None:
    most = running = 0

    @app.job
    async def wait() -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    runs = await app.aenqueue_many([wait.request() for _ in range(40)])
    async with working(app, concurrency=4, resend_after=RESEND_AFTER):
        await ended(app, [run.id for run in runs])

    assert 1 <= most <= 4


async def test_a_worker_takes_no_more_messages_than_it_has_seats(url: str) -> None:
    transport = MemoryTransport()
    app = Windlass(url, transport=transport, **SETTINGS)
    full, go = asyncio.Event(), asyncio.Event()
    running = 0

    @app.job
    async def wait() -> None:
        nonlocal running
        running += 1
        if running == 2:
            full.set()
        await go.wait()

    runs = await app.aenqueue_many([wait.request() for _ in range(50)])
    async with working(app, concurrency=2, resend_after=PATIENCE) as worker:
        await within(full)
        await at_rest(worker)
        assert len(transport._messages) == 48
        assert worker.busy == 2
        go.set()
        await ended(app, [run.id for run in runs])
        assert hub_of(worker).pump.brought == 0
    await app.aclose()


async def test_runs_that_come_round_again_are_published_again(app: Windlass) -> None:
    """At once, or when their time has come: after a backoff, a snooze, a delay."""

    @app.job(retry=Retry.fixed("50ms", jitter=0), max_attempts=3)
    async def stumbling(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError(ctx.attempt)
        return ctx.attempt

    @app.job(retry=Retry.fixed(0), max_attempts=3)
    async def hasty(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError(ctx.attempt)
        return ctx.attempt

    @app.job
    async def drowsy(ctx: Context) -> object:
        return Snooze("50ms") if ctx.attempt == 1 else ctx.attempt

    async with working(app, resend_after=RESEND_AFTER):
        runs = [await job.aenqueue() for job in (stumbling, hasty, drowsy)]
        runs.append(await drowsy.using(delay="100ms").aenqueue())
        results = [await app.aresult(run.id, timeout=PATIENCE) for run in runs]

    assert results == [3, 3, 2, 2]
    stumbled, hastened, *slept = [await run.arefresh() for run in runs]
    failed = [AttemptOutcome.FAILED, AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED]
    assert outcomes(stumbled) == outcomes(hastened) == failed
    assert min(pauses(stumbled)) >= timedelta(milliseconds=50)
    for run in slept:
        assert outcomes(run) == [AttemptOutcome.SNOOZED, AttemptOutcome.SUCCEEDED]
        assert run.record.failures == 0
        assert min(pauses(run)) >= timedelta(milliseconds=50)
    assert pauses(slept[1])


def outcomes(run: Run) -> list[AttemptOutcome]:
    """How the attempts of a run ended."""
    return [attempt.outcome for attempt in run.attempts]


def pauses(run: Run) -> list[timedelta]:
    """How long a run waited from the end of one attempt to the beginning of the next."""
    return [after.started_at - before.finished_at for before, after in pairwise(run.attempts)]


async def test_a_running_run_is_canceled(app: Windlass) -> None:
    begun = asyncio.Event()
    told: list[bool] = []

    @app.job(max_attempts=3)
    async def endless(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.append(ctx.canceled)

    @app.job
    async def nothing() -> None: ...

    async with working(app, resend_after=RESEND_AFTER):
        run = await endless.aenqueue()
        await within(begun)
        await run.acancel()
        await ended(app, [run.id])
        # Its message, which may come a second time, starts nothing.
        app.transport.publish([encode_message(run.ref)])
        await ended(app, [(await nothing.aenqueue()).id])

    found = await run.arefresh()
    assert (found.status, outcomes(found)) == (Status.CANCELED, [AttemptOutcome.CANCELED])
    assert told == [True]


async def test_a_run_that_takes_too_long_is_stopped_and_tried_again(app: Windlass) -> None:
    @app.job(timeout="30ms", max_attempts=2, retry=Retry.fixed("20ms"))
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(app, resend_after=RESEND_AFTER):
        run = await slow.aenqueue()
        await ended(app, [run.id])

    found = await run.arefresh()
    assert (found.status, found.failure) == (Status.FAILED, Failure.TIMEOUT)
    assert outcomes(found) == [AttemptOutcome.TIMEOUT] * 2


async def test_runs_of_a_worker_that_stops_are_taken_up_by_the_next(app: Windlass) -> None:
    begun = asyncio.Event()

    @app.job(max_attempts=1)
    async def long(ctx: Context) -> int:
        if ctx.attempt == 1:
            begun.set()
            await asyncio.Event().wait()
        return ctx.attempt

    async with working(app, drain=0, resend_after=RESEND_AFTER):
        run = await long.aenqueue()
        await within(begun)
    # It has stopped, and given back what it held, as no failure and no crash of anybody's.
    left = await run.arefresh()
    assert (left.status, outcomes(left)) == (Status.QUEUED, [AttemptOutcome.INTERRUPTED])
    if isinstance(app.transport, MemoryTransport):
        await drained(app.transport)  # what it had published is gone with it

    async with working(app, resend_after=RESEND_AFTER):
        assert await app.aresult(run.id, timeout=PATIENCE) == 2

    found = await run.arefresh()
    assert outcomes(found) == [AttemptOutcome.INTERRUPTED, AttemptOutcome.SUCCEEDED]
    assert (found.record.failures, found.crash_count) == (0, 0)


async def drained(transport: MemoryTransport) -> None:
    """Take whatever is there."""
    transport.publish([b""])
    await transport.receive(1000)


async def test_a_run_of_a_dead_worker_is_published_again(app: Windlass) -> None:
    @app.job
    async def survivor(ctx: Context) -> int:
        return ctx.attempt

    run = await survivor.aenqueue()
    claimed = await claim_and_die(app)
    assert claimed.id == run.id

    # A server that has just started reaps nothing for two thirds of a lease.
    async with working(app, lease=3.0, resend_after=RESEND_AFTER):
        assert await app.aresult(run.id, timeout=PATIENCE) == 2

    found = await app.aget(run.id)
    assert [a.outcome for a in found.attempts] == [AttemptOutcome.CRASHED, AttemptOutcome.SUCCEEDED]


async def claim_and_die(app: Windlass) -> Claimed:
    """A worker that claims one run and is never heard of again."""
    jobs = tuple(app.jobs)
    ghost = WorkerInfo(id="ghost", host="box", pid=1, version="1", queues=None, jobs=jobs, seats=1)
    operations = app.store.operations
    await app.store.arun(operations.register(ghost, 30))
    reply = await app.store.arun(operations.cycle("ghost", 1, [], Want(limit=1, jobs=jobs)))
    (claimed,) = reply.claimed
    await app.store.arun(operations.register(ghost, 0))
    return claimed


async def test_what_a_message_names_is_claimed_only_where_it_can_be_run(app: Windlass) -> None:
    @app.job
    async def known() -> None: ...

    async with working(app, queues=("default",), resend_after=RESEND_AFTER):
        await asyncio.sleep(0)
        elsewhere = await known.using(queue="side").aenqueue()
        canceled = await known.using(delay="1h").aenqueue()
        await canceled.acancel()
        app.transport.publish([encode_message(run.ref) for run in (elsewhere, canceled)])
        mine = await known.aenqueue()
        await ended(app, [mine.id])

    assert (await app.aget(elsewhere.id)).status is Status.QUEUED
    assert (await app.aget(canceled.id)).status is Status.CANCELED


async def test_a_transport_that_loses_messages_costs_no_more_than_a_resend(url: str) -> None:
    transport = BadTransport()
    app = Windlass(url, transport=transport, **SETTINGS)

    @app.job
    async def nothing() -> None: ...

    async with working(app, resend_after=RESEND_AFTER):
        runs = await app.aenqueue_many([nothing.request() for _ in range(30)])
        await ended(app, [run.id for run in runs])
    waits = [
        run.started_at - run.created_at for run in await app.alist(limit=100) if run.started_at
    ]
    await app.aclose()

    assert transport.lost >= 10
    assert len(waits) == 30
    assert max(waits) < timedelta(seconds=20)  # nothing but a resend would ever bring them


class Recording(MemoryTransport):
    """Keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def publish(self, messages: Sequence[bytes]) -> None:
        """Pass them on."""
        self.sent += messages
        super().publish(messages)


async def test_rescheduled_runs_are_sent_once_they_are_ready(url: str) -> None:
    transport = Recording()
    app = Windlass(url, transport=transport, **SETTINGS)

    @app.job
    async def nothing() -> None: ...

    later = nothing.using(delay="1h")
    runs = [await later.aenqueue(), later.enqueue().cancel(), nothing.enqueue()]
    transport.sent.clear()
    await transport.receive(1000)
    for run in runs:
        await run.areschedule(delay="30m")
    assert transport.sent == []

    await runs[0].areschedule(delay=0)
    for run in runs[1:]:
        run.reschedule(delay=0)
    assert transport.sent == [encode_message(run.ref) for run in runs]
    async with working(app, resend_after=PATIENCE):
        await ended(app, [run.id for run in runs])
    await app.aclose()
