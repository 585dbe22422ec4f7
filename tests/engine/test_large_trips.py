"""A way to the store that bears little: trips that are too large for it are lost, whatever they
carry, and what they carried must get through all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.engine.test_leases import Moody, Serving
from tests.fixtures.apps import PATIENCE, holds, hub_of, opened, working
from windlass import Run, StoreUnavailable, UsageError, Windlass
from windlass.domain.run import Finish, Want
from windlass.engine.allowance import Allowance
from windlass.store.interface import Call
from windlass.transport.memory import MemoryTransport

LARGE = "x" * 300_000
LOST = StoreUnavailable("wait timeout expired")


@pytest.fixture
def moody(app: Windlass) -> Moody:
    """The store of the application, which may lose trips."""
    return Moody(app.store)


def weight(finishes: Sequence[Finish]) -> int:
    """What ends weigh: their results and errors are all that can be large."""
    results = [len(finish.result) for finish in finishes if finish.result is not None]
    errors = [len(finish.error.traceback) for finish in finishes if finish.error is not None]
    return sum(results) + sum(errors)


def gathering(app: Windlass, many: int, make: Callable[[int], object]) -> Any:
    """A job whose runs end together, as soon as there are so many of them."""
    together, begun = asyncio.Event(), 0

    @app.job
    async def gather(n: int, text: str = "") -> object:
        nonlocal begun
        begun += 1
        if begun >= many:
            together.set()
        await together.wait()
        return make(n)

    return gather


async def succeeded(runs: Sequence[Run]) -> list[int]:
    """Wait until all have; returns how many attempts each took."""
    for run in runs:
        await run.await_end(timeout=PATIENCE)
    assert {run.status for run in runs} == {"succeeded"}
    return [run.attempt for run in runs]


# -- claims ---------------------------------------------------------------------------------------


async def test_claims_that_are_too_large_shrink_until_they_arrive(
    app: Windlass, moody: Moody
) -> None:
    @app.job
    async def work(n: int) -> None: ...

    moody.fails = lambda _, want: LOST if want is not None and want.limit > 5 else None
    runs = await app.aenqueue_many(work.request(n) for n in range(40))
    async with Serving(app, moody, concurrency=100):
        await succeeded(runs)
    limits = [want.limit for _, want in moody.cycles if want is not None]
    assert limits[:4] == [100, 25, 6, 1]
    lost = sum(limit > 5 for limit in limits)
    assert lost < len(limits) / 2  # what is known to fail is tried ever more seldom


async def test_a_claim_of_one_still_goes(app: Windlass, moody: Moody) -> None:
    @app.job
    async def work(n: int) -> None: ...

    moody.fails = lambda _, want: LOST if want is not None and want.limit > 1 else None
    runs = await app.aenqueue_many(work.request(n) for n in range(10))
    async with Serving(app, moody, concurrency=100):
        await succeeded(runs)


async def test_ends_are_recorded_while_claims_are_lost(app: Windlass, moody: Moody) -> None:
    """They would be lost with the claim that they travel with."""
    many = 10
    job = gathering(app, many, lambda n: n)
    claimed = 0

    def fails(finishes: list[Finish], want: Want | None) -> Exception | None:
        nonlocal claimed
        claimed += want is not None
        return LOST if want is not None and claimed > 1 else None

    moody.fails = fails
    runs = await app.aenqueue_many(job.request(n) for n in range(many))
    async with Serving(app, moody, concurrency=many):
        assert await succeeded(runs) == [1] * many


async def test_ends_and_claims_go_by_turns_where_they_cannot_go_together(
    app: Windlass, moody: Moody
) -> None:
    """Neither waits for a time when there is nothing of the other."""

    @app.job
    async def work(n: int) -> None:
        await asyncio.sleep(0)

    moody.fails = lambda finishes, want: LOST if finishes and want is not None else None
    runs = await app.aenqueue_many(work.request(n) for n in range(60))
    async with Serving(app, moody, concurrency=3):
        assert await succeeded(runs) == [1] * 60
    together = sum(bool(finishes) and want is not None for finishes, want in moody.cycles)
    assert 1 <= together < len(moody.cycles) / 4


async def test_runs_that_a_transport_brought_are_claimed_in_parts(url: str) -> None:
    async with opened(url, transport=MemoryTransport()) as app:
        moody = Moody(app.store)
        app.ground.store = moody

        @app.job
        async def work(n: int) -> None: ...

        moody.fails = lambda _, want: LOST if want is not None and want.limit > 5 else None
        runs = await app.aenqueue_many(work.request(n) for n in range(20))
        async with working(app, concurrency=50, resend_after=0.1) as worker:
            pump = hub_of(worker).pump
            with pump.rested.heard() as rested:
                await succeeded(runs)
                if pump.brought:  # a message may have been sent again meanwhile
                    await rested.until(lambda _: not pump.brought)


async def test_claims_that_take_long_shrink_although_they_arrive(
    app: Windlass, moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends wait for a claim that is on its way."""

    @app.job
    async def work(n: int) -> None: ...

    monkeypatch.setattr("windlass.engine.pump._LONG_TRIP", 0.0)
    runs = await app.aenqueue_many(work.request(n) for n in range(140))
    async with Serving(app, moody, concurrency=100):
        await succeeded(runs)
    limits = [want.limit for _, want in moody.cycles if want is not None]
    assert limits[:4] == [100, 25, 6, 1]


# -- ends -----------------------------------------------------------------------------------------


async def test_results_that_are_too_large_together_go_in_parts(app: Windlass, moody: Moody) -> None:
    """Even where the worker is told to stop just then."""
    many = 10
    job = gathering(app, many, lambda n: LARGE)
    moody.fails = lambda finishes, _: LOST if weight(finishes) > 700_000 else None
    runs = await app.aenqueue_many(job.request(n) for n in range(many))
    async with Serving(app, moody, concurrency=many) as worker:
        await holds(worker, many)
    assert await succeeded(runs) == [1] * many


async def test_one_large_result_goes_by_itself(app: Windlass, moody: Moody) -> None:
    job = gathering(app, 4, lambda n: LARGE)
    moody.fails = lambda ends, _: LOST if len(ends) > 1 and weight(ends) > 1000 else None
    runs = await app.aenqueue_many(job.request(n) for n in range(4))
    async with Serving(app, moody, concurrency=4):
        assert await succeeded(runs) == [1] * 4


async def test_a_result_that_is_too_large_by_itself_holds_up_no_other(
    app: Windlass, moody: Moody
) -> None:
    job = gathering(app, 10, lambda n: LARGE if n == 0 else n)
    wide = asyncio.Event()
    moody.fails = lambda ends, _: LOST if weight(ends) > 1000 and not wide.is_set() else None
    first, *others = await app.aenqueue_many(job.request(n) for n in range(10))
    async with Serving(app, moody, concurrency=10):
        assert await succeeded(others) == [1] * 9
        wide.set()
        assert await succeeded([first]) == [1]


@pytest.mark.parametrize("kind", ["results", "errors"])
async def test_no_trip_is_heavier_than_a_few_mebibytes(
    app: Windlass, moody: Moody, kind: str
) -> None:
    many = 20 if kind == "results" else 100

    def make(n: int) -> str:
        if kind == "errors":
            raise ExceptionGroup("all", [ValueError("m" * 9000) for _ in range(10)])
        return LARGE

    job = gathering(app, many, make)
    runs = await app.aenqueue_many(job.using(max_attempts=1).request(n) for n in range(many))
    async with Serving(app, moody, concurrency=many):
        for run in runs:
            await run.await_end(timeout=PATIENCE)
    weights = [found for finishes, _ in moody.cycles if (found := weight(finishes))]
    assert sum(weights) > 5 * 1024**2
    assert max(weights) <= 4 * 1024**2
    assert len(weights) <= 3  # two are enough; the first may go before the last has ended


async def test_no_trip_meets_another_on_a_way_that_bears_one(app: Windlass, moody: Moody) -> None:
    """There are enough ends for two at once, again and again."""
    many = 700
    job = gathering(app, many, lambda n: n)
    serving = Serving(app, moody, concurrency=many)
    moody.fails = lambda *_: LOST if hub_of(serving.worker).pump.under_way > 1 else None
    runs = await app.aenqueue_many(job.request(n) for n in range(many))
    async with serving:
        await runs[-1].await_end(timeout=PATIENCE)
        await runs[0].await_end(timeout=PATIENCE)


async def test_what_is_lost_is_not_sent_again_as_it_is(
    app: Windlass, moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the store, that is: it would, until its patience ends, and then tell that it was lost."""

    @app.job
    async def work() -> None: ...

    repeated, arun = set(), moody.arun

    async def watched(call: Call[Any]) -> Any:
        if call.name == "cycle":
            repeated.add(call.repeatable)
        return await arun(call)

    monkeypatch.setattr(moody, "arun", watched)
    run = await work.aenqueue()
    async with Serving(app, moody):
        await succeeded([run])
    assert repeated == {False}


# -- how much may go ------------------------------------------------------------------------------


async def test_a_worker_that_was_cut_off_claims_as_much_as_ever_within_five_trips(
    app: Windlass, moody: Moody
) -> None:
    @app.job
    async def work(n: int) -> None:
        await asyncio.Event().wait()

    away = 4

    def fails(finishes: list[Finish], want: Want | None) -> Exception | None:
        nonlocal away
        away -= 1
        return LOST if away >= 0 else None

    moody.fails = fails
    await app.aenqueue_many(work.request(n) for n in range(500))
    async with Serving(app, moody, concurrency=400, drain=0) as worker:
        await holds(worker, 400)
        assert hub_of(worker).pump.may_claim_at_once == app.store.batch
    limits = [want.limit for _, want in moody.cycles if want is not None]
    assert limits == [400, 100, 25, 6, 1, 4, 16, 64, 256, 59]


async def test_nothing_new_is_begun_while_too_many_ends_wait(app: Windlass) -> None:
    """Results that are too heavy to go as fast as they come must not pile up: each is a run that
    would be run again if the worker died."""

    @app.job
    async def work(n: int) -> str:
        return "x" * 100

    batch, waited = app.store.batch, [0]
    runs = 16 * batch
    await app.aenqueue_many(work.request(n) for n in range(runs))
    worker = app.worker()
    pump = hub_of(worker).pump
    pump._ends.allowed = Allowance(most=10_000, least=10_000)  # a hundred of them in one trip
    with pump.sent.calling(lambda _: waited.append(len(pump._ends))):
        task = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            await worker.drained()
        worker.stop()
        await task

    assert worker.ended == runs
    # Two batches that wait, three that were held ahead, one that was on its way, and the seats.
    assert max(waited) <= 6 * batch + 100


def test_what_may_go_shrinks_with_each_loss_and_grows_again() -> None:
    allowed = Allowance(most=500, least=1)
    seen = [allowed.now]
    for _ in range(5):
        allowed.lost(allowed.now)
        seen.append(allowed.now)
    for _ in range(6):
        allowed.arrived(allowed.now)
        seen.append(allowed.now)
    assert seen == [500, 125, 31, 7, 1, 1, 4, 16, 64, 256, 500, 500]


def test_what_may_go_follows_what_went() -> None:
    """A small trip that is lost says that less than it may go; that it arrives says nothing."""
    allowed = Allowance(most=500, least=1)
    allowed.lost(40)
    assert allowed.now == 10
    allowed.arrived(9)
    assert allowed.now == 10
    allowed.arrived(10)
    assert allowed.now == 40


def tries(allowed: Allowance, bears: int, trips: int) -> list[bool]:
    """Send as much as may go, so many times, where the way bears no more than that."""
    lost = []
    for _ in range(trips):
        lost.append(allowed.now > bears)
        (allowed.lost if lost[-1] else allowed.arrived)(allowed.now)
    return lost


def test_what_was_too_much_is_tried_ever_more_seldom() -> None:
    allowed = Allowance(most=500, least=1)
    lost = tries(allowed, 10, 400)
    assert lost[:10] == [True] * 3 + [False, True, False, False, True, False, False]
    assert sum(lost[200:]) <= 4
    tries(allowed, 500, 150)  # the way is wide again
    assert allowed.now == 500


# -- a slow line ----------------------------------------------------------------------------------

RATE = 1_900_000  # bytes in a second; with a lease of three seconds a call may take one
FOUR = 4  # of these inputs, or results, take longer than that


@asynccontextmanager
async def slow_line(url: str) -> AsyncIterator[str]:
    """The same database at the end of a slow line: what is sent arrives, in its time."""
    parts = urlsplit(url)
    links: set[asyncio.Task[None]] = set()

    async def pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(50_000):
                await asyncio.sleep(len(data) / RATE)
                sink.write(data)
                await sink.drain()
        except OSError:
            pass  # whoever waited for it has gone away
        finally:
            sink.close()

    async def link(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for way in (pour(source, writer), pour(reader, sink)):
            links.add(asyncio.create_task(way))
            await asyncio.sleep(0)  # begun, so that it ends what it has

    async with await asyncio.start_server(link, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        yield parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()
        for task in links:
            task.cancel()
        await asyncio.gather(*links, return_exceptions=True)


async def test_large_inputs_and_results_get_through_a_slow_line(pg_database: str) -> None:
    large = "x" * 500_000
    async with opened(pg_database) as desk, slow_line(pg_database) as url:

        @desk.job(name="gather")
        async def ask(n: int, text: str) -> str:
            return text

        async with opened(url, lease="3s") as app:
            gathering(app, FOUR, lambda _: large)
            runs = await desk.aenqueue_many(ask.request(n, large) for n in range(FOUR))
            async with working(app, concurrency=FOUR):
                await succeeded(runs)
    assert [run.result for run in runs] == [large] * FOUR


def test_a_loss_of_no_more_than_went_before_says_nothing_about_more() -> None:
    """A worker with little to do loses trips now and then; its next backlog is not to suffer."""
    allowed = Allowance(most=500, least=1)
    for _ in range(8):
        allowed.lost(1)
        allowed.arrived(1)
        assert allowed.now == 4  # more may go, and does not
    for _ in range(4):
        allowed.arrived(allowed.now)
    assert allowed.now == 500


# -- a large enqueue ------------------------------------------------------------------------------

SLOWLY = """
create function slowly() returns trigger language plpgsql
as $$ begin perform pg_sleep(2); return null; end $$;
create trigger slowly after insert on windlass.runs for each statement execute function slowly();
"""


@pytest.mark.parametrize("face", ["blocking", "async"])
async def test_a_server_has_time_for_what_it_was_given(pg_database: str, face: str) -> None:
    """It is silent for two seconds. A small call would be given up after one, and made all the
    same: so the caller would hear of a failure that is none."""
    with psycopg.connect(pg_database) as owner:
        owner.execute(SLOWLY)
    async with opened(pg_database, lease="3s") as app:
        job = gathering(app, FOUR, lambda _: None)
        asked = [job.request(n, "x" * 1_000_000) for n in range(FOUR)]
        runs = await app.aenqueue_many(asked) if face == "async" else app.enqueue_many(asked)
        assert len(runs) == FOUR
        assert len(await app.alist()) == FOUR


async def test_a_large_batch_gets_through_a_slow_line(pg_database: str) -> None:
    """It takes longer than a call may be silent, and something moves all the time."""
    async with slow_line(pg_database) as url, opened(url, lease="3s") as app:
        job = gathering(app, FOUR, lambda _: None)
        asked = [job.request(n, "x" * 500_000) for n in range(2 * FOUR)]
        runs = await app.aenqueue_many(asked)
        assert len(runs) == 2 * FOUR
        read = [run.input["text"] for run in await app.alist(limit=100)]
        assert read == ["x" * 500_000] * 2 * FOUR


@pytest.mark.parametrize("kind", ["plain", "with options", "in a transaction"])
def test_a_batch_that_no_call_can_take_is_refused_first(
    pg_database: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("windlass.store.postgres.new_runs.MOST_BYTES", 1024**2)
    app = Windlass(pg_database)
    job = gathering(app, FOUR, lambda _: None)
    asking = job.using(tags=("t",)) if kind == "with options" else job
    asked = [asking.request(n, "x" * 500_000) for n in range(3)]
    refused = r"have 1 MiB and one call can take 1 MiB: enqueue fewer"
    if kind == "in a transaction":
        with app.transaction() as tx, pytest.raises(UsageError, match=refused):
            app.enqueue_many(asked, connection=tx)
    else:
        with pytest.raises(UsageError, match=refused):
            app.enqueue_many(asked)
    assert app.list() == []
    app.close()
