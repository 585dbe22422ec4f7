"""How often the store is asked: a batch is one round trip, and so are ends with the next claim."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.fixtures.apps import Bell, at_rest, opened, within, working
from tests.fixtures.trips import Trips, trips
from windlass import Windlass
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Finish, Want, WorkerInfo
from windlass.engine import lanes

__all__ = ["trips"]

MANY = 1000
SEATS = 50
ROUNDS = 6


def add_job(app: Windlass) -> Any:
    """A job that is not run here."""

    @app.job
    async def nothing(n: int) -> None: ...

    return nothing


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
async def test_many_are_enqueued_in_one_round_trip(trips: Trips, keyed: bool) -> None:
    async with opened(trips.url) as app:
        job = add_job(app)
        await job.aenqueue(n=0)  # connections are open from here on
        job.enqueue(n=0)
        for face in ("async", "sync"):
            wanted = [
                (job.using(key=f"{face}-{n}") if keyed else job).request(n=n) for n in range(MANY)
            ]
            before = trips.made
            runs = app.enqueue_many(wanted) if face == "sync" else await app.aenqueue_many(wanted)
            # A second one may be the hint to workers, which PostgreSQL is given by itself.
            assert 1 <= trips.made - before <= 2
            assert len({run.id for run in runs}) == MANY


async def test_one_call_of_the_store_is_one_round_trip(trips: Trips) -> None:
    """Enqueue, claim, and ends together with the next claim: exactly."""
    async with opened(trips.url) as app:
        job = add_job(app)
        await app.aenqueue_many([job.request(n=n) for n in range(MANY)])
        store, operations = app.store, app.store.operations
        ghost = WorkerInfo(
            id="w", host="", pid=1, version="", queues=None, jobs=("nothing",), seats=SEATS
        )
        await store.arun(operations.register(ghost, 60))
        want = Want(limit=SEATS, jobs=("nothing",))
        before = trips.made
        held = (await store.arun(operations.cycle("w", 1, [], want))).claimed
        assert trips.made - before == 1
        for number, outcome in enumerate((Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RETRY), 2):
            ends = [end(run, outcome) for run in held]
            before = trips.made
            reply = await store.arun(operations.cycle("w", number, ends, want))
            assert trips.made - before == 1
            assert (len(reply.lost), len(reply.claimed)) == (0, SEATS)
            held = reply.claimed


def end(run: Claimed, outcome: Outcome) -> Finish:
    """The end of an attempt."""
    return Finish(tenant=run.tenant, id=run.id, token=run.token, outcome=outcome, delay=60.0)


async def test_a_worker_under_load_ends_and_claims_in_one_round_trip(
    trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handlers end together, a seatful at a time: each time it makes one trip, and no more."""
    monkeypatch.setattr(lanes, "_AHEAD_SECONDS", 0.0)  # a seatful is all that it asks for
    # No renewal, no sweep, no hint and no look of its own accord comes in between.
    async with opened(trips.url, renew="1h", sweep="1h", poll="1h", lease="3h") as app:
        begun, together, over = 0, asyncio.Event(), asyncio.Event()
        made: list[int] = []

        @app.job
        async def meet(n: int) -> None:
            nonlocal begun, together
            begun += 1
            if begun % SEATS:
                await together.wait()
                return
            made.append(trips.made)
            together.set()
            together = asyncio.Event()
            if begun == SEATS * ROUNDS:
                over.set()

        monkeypatch.setattr(app.store, "listen", Bell().listen)
        await app.aenqueue_many([meet.request(n=n) for n in range(SEATS * ROUNDS)])
        carried = watched(app, monkeypatch)
        async with working(app, concurrency=SEATS, services=False) as worker:
            await within(over)
            await at_rest(worker)

    assert carried[: ROUNDS + 1] == [(0, SEATS)] + [(SEATS, SEATS)] * ROUNDS
    assert [ends for ends, _ in carried[ROUNDS + 1 :] if ends] == []
    assert [after - before for before, after in pairwise(made)] == [1] * (ROUNDS - 1)


def watched(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What each trip of a worker carries from now on: ends, and runs asked for."""
    carried: list[tuple[int, int]] = []
    cycle = app.store.operations.cycle

    def noted(worker: str, claim_no: int, ends: Sequence[Finish], want: Want | None) -> Any:
        carried.append((len(ends), want.limit if want else 0))
        return cycle(worker, claim_no, ends, want)

    monkeypatch.setattr(app.store.operations, "cycle", noted)
    return carried
