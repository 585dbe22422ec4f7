"""The pump's side of locks, on both stores: what comes back as busy is neither lost nor recorded,
and what is lost takes nobody else's turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.engine.test_large_trips import gathering, succeeded
from tests.engine.test_leases import Moody, Serving, cycle_of
from tests.fixtures.apps import PATIENCE, holds, hub_of, within
from windlass import Retry, Status, StoreBusy, StoreUnavailable, Windlass
from windlass.domain.run import CycleReply, Finish, Held, Want
from windlass.store.interface import Call

LOST = StoreUnavailable("away")
HELD = StoreBusy("held")


class Locking(Moody):
    """The real store, in which the leases of some runs are locked, or the worker's row is."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.locked: Callable[[Finish], bool] = lambda _: False
        self.worker_locked = False
        self.tried: list[str] = []

    async def arun(self, call: Call[Any]) -> Any:
        given = cycle_of(call)
        if given is None:
            return await self._store.arun(call)
        finishes, want = given
        self.cycles.append(given)
        error = self.fails(finishes, want)
        if error is not None:
            raise error
        busy = [finish for finish in finishes if self.locked(finish)]
        self.tried += [finish.id for finish in busy]
        if busy or self.worker_locked:  # the others are recorded; a claim would need its number
            kept = [finish for finish in finishes if finish not in busy]
            call = self._store.operations.cycle("nobody", 0, kept, None)
        reply: CycleReply = await self._store.arun(call)
        return msgspec.structs.replace(
            reply,
            busy=tuple(Held(f.tenant, f.id, f.token) for f in busy),
            locked=self.worker_locked and want is not None,
        )


@pytest.fixture
def locking(app: Windlass) -> Locking:
    return Locking(app.store)


async def test_an_end_that_is_busy_is_sent_again_until_it_is_recorded(
    app: Windlass, locking: Locking
) -> None:
    many = 10
    job = gathering(app, many, lambda n: n)
    first, *others = await app.aenqueue_many(job.request(n) for n in range(many))
    locking.locked = lambda finish: finish.id == first.id and len(locking.tried) < 4
    async with Serving(app, locking, concurrency=many) as worker:
        assert await succeeded(others) == [1] * (many - 1)
        assert await succeeded([first]) == [1]
        await holds(worker, 0)
        assert worker.ended == many
    assert locking.tried == [first.id] * 4
    assert first.result == 0


async def test_a_run_that_goes_back_is_announced_when_that_is_recorded(
    app: Windlass, locking: Locking
) -> None:
    @app.job(max_attempts=2, retry=Retry.fixed(0))
    async def flaky() -> None:
        if len(begun) < 1:
            begun.append(1)
            raise ValueError

    begun: list[int] = []
    locking.locked = lambda finish: len(locking.tried) < 3
    run = await flaky.aenqueue()
    async with Serving(app, locking):
        assert await succeeded([run]) == [2]


async def test_a_worker_that_stops_still_sends_what_was_busy(
    app: Windlass, locking: Locking
) -> None:
    job = gathering(app, 1, lambda n: n)
    run = await job.aenqueue(n=1)
    met = asyncio.Event()

    def locked(finish: Finish) -> bool:
        met.set()
        return len(locking.tried) < 5

    locking.locked = locked
    async with Serving(app, locking):
        await within(met)
    assert (await app.aget(run.id)).status is Status.SUCCEEDED


async def test_a_worker_whose_row_is_locked_asks_again(app: Windlass, locking: Locking) -> None:
    job = gathering(app, 1, lambda n: n)
    locking.worker_locked = True
    run = await job.aenqueue(n=1)
    async with Serving(app, locking) as worker:
        with hub_of(worker).pump.sent.heard() as sent:
            for _ in range(4):
                await sent.next()
        locking.worker_locked = False
        assert await succeeded([run]) == [1]


# -- turns ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brief_pauses")
@pytest.mark.parametrize("error", [LOST, HELD], ids=["lost", "held"])
async def test_claims_have_their_turn_although_every_end_is_lost(
    app: Windlass, locking: Locking, error: Exception
) -> None:
    begun = asyncio.Semaphore(0)

    @app.job
    async def work(n: int) -> None:
        begun.release()

    back = asyncio.Event()
    locking.fails = lambda finishes, _: error if finishes and not back.is_set() else None
    runs = await app.aenqueue_many(work.request(n) for n in range(20))
    async with Serving(app, locking, concurrency=4):
        async with asyncio.timeout(PATIENCE):
            for _ in runs:  # one seatful after another
                await begun.acquire()
        back.set()
        assert await succeeded(runs) == [1] * 20


async def test_ends_have_their_turn_although_every_claim_is_held(
    app: Windlass, locking: Locking
) -> None:
    many = 10
    job = gathering(app, many, lambda n: n)
    claims = 0

    def fails(finishes: list[Finish], want: Want | None) -> Exception | None:
        nonlocal claims
        claims += want is not None
        return HELD if want is not None and claims > 1 else None

    locking.fails = fails
    runs = await app.aenqueue_many(job.request(n) for n in range(many))
    async with Serving(app, locking, concurrency=many):
        assert await succeeded(runs) == [1] * many


async def test_one_end_that_is_held_up_goes_alone_and_holds_up_no_other(
    app: Windlass, locking: Locking
) -> None:
    """Not by its lease, which the store would pass over."""
    many = 10
    job = gathering(app, many, lambda n: n)
    first, *others = await app.aenqueue_many(job.request(n) for n in range(many))
    free = asyncio.Event()

    def fails(finishes: list[Finish], want: Want | None) -> Exception | None:
        held = any(finish.id == first.id for finish in finishes)
        return HELD if held and not free.is_set() else None

    locking.fails = fails
    async with Serving(app, locking, concurrency=many):
        assert await succeeded(others) == [1] * (many - 1)
        more = await app.aenqueue_many(job.request(n) for n in range(many))
        assert await succeeded(more) == [1] * many
        free.set()
        assert await succeeded([first]) == [1]
