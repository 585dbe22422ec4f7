"""What is read without the lock, before and after the one statement that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.sqlite.kit import JOB, QUEUE, new_run, new_worker, succeeded, traced, writes
from windlass.domain.run import Claimed, CycleReply, Finish, Held, RunRef, Want
from windlass.domain.states import Status
from windlass.errors import StoreError
from windlass.sources import ManualSources, Sources
from windlass.store.sqlite import finish
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.store import SqliteStore

LEASE = 60.0


@pytest.fixture
def calls(store: SqliteStore) -> Any:
    """The operations of a store that has a worker."""
    store.run(store.operations.register(new_worker(), LEASE))
    return store.operations


def cycle(store: SqliteStore, ends: Sequence[Finish] = (), **fields: Any) -> CycleReply:
    known: dict[str, Any] = {"limit": 10, "jobs": (JOB,)}
    want = Want(**(known | fields))
    return store.run(store.operations.cycle("w1", 1, list(ends), want))


def events(store: SqliteStore, run: Claimed) -> list[tuple[str, Any]]:
    found = store.run(store.operations.list_events(RunRef(run.tenant, run.id), 0, 100))
    return [(event.type, event.at) for event in found]


@contextmanager
def meanwhile(name: str, action: Callable[[], object]) -> Iterator[None]:
    """Have something happen once a statement of ours was read, the first time it is."""
    fetch = OpenTransaction.fetch
    left = [action]

    def fetched(tx: OpenTransaction, asked: str, bindings: Any = ()) -> list[Row]:
        rows = fetch(tx, asked, bindings)
        if asked == name and left:
            left.pop()()
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenTransaction, "fetch", fetched)
        yield
    assert not left


# -- the time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead", "back"), [(0.0001, False), (0.9, False), (30.0, True)])
def test_time_does_not_go_back_unless_the_clock_was_set(
    store: SqliteStore, calls: Any, sources: ManualSources, path: Path, ahead: float, back: bool
) -> None:
    """Another process looks at the clock after us, and has the lock before us."""
    store.run(calls.enqueue([new_run(sources)]))
    (run,) = cycle(store).claimed
    later = Sources.manual()
    later.clock.advance(ahead)
    with SqliteStore(path, sources=later) as other:
        other.run(other.operations.cancel(RunRef(run.tenant, run.id), "enough"))
        other.run(other.operations.enqueue([new_run(sources)]))
    (next_run,) = cycle(store, [succeeded(run)]).claimed

    kinds, times = zip(*events(store, run), strict=True)
    assert kinds == ("run.enqueued", "run.started", "run.cancel_requested", "run.succeeded")
    assert (list(times) != sorted(times)) is back
    record = store.run(calls.get_run(RunRef(run.tenant, run.id)))
    assert record.finished_at == record.attempts[-1].finished_at == times[-1]
    (_, created), (_, started) = events(store, next_run)
    assert (started < created) is back


def test_what_is_claimed_did_not_start_before_it_was_enqueued(
    store: SqliteStore,
    calls: Any,
    sources: ManualSources,
    path: Path,
) -> None:
    """Python's lock was another's for ten seconds, between the look at a queue and the claim."""

    def wait() -> None:
        sources.clock.advance(10.0)
        with SqliteStore(path, sources=sources) as other:
            other.run(other.operations.enqueue([new_run(sources)]))

    store.run(calls.enqueue([new_run(sources)]))
    with meanwhile("claimable", wait):
        claimed = cycle(store).claimed

    assert len(claimed) == 2
    for run in claimed:
        (_, created), (_, started) = events(store, run)
        assert started == sources.clock.now() >= created


def test_renewal_counts_from_when_it_is_written(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    with meanwhile("worker_claims", lambda: sources.clock.advance(10.0)):
        reply = store.run(calls.renew("w1", LEASE, [], 0))
    (worker,) = store.run(calls.list_workers())
    assert reply.now == worker.renewed_at == sources.clock.now()


# -- what others do meanwhile --------------------------------------------------------------------


def test_claim_of_what_another_took_meanwhile_is_empty(
    store: SqliteStore,
    calls: Any,
    sources: ManualSources,
    path: Path,
) -> None:
    store.run(calls.enqueue([new_run(sources)]))
    taken: list[Claimed] = []

    def take() -> None:
        with SqliteStore(path, sources=sources) as other:
            other.run(other.operations.register(new_worker("w2"), LEASE))
            want = Want(limit=10, jobs=(JOB,))
            taken.extend(other.run(other.operations.cycle("w2", 1, [], want)).claimed)

    with meanwhile("claimable", take):
        reply = cycle(store)
    assert (reply.claimed, reply.marks, len(taken)) == ((), {}, 1)


def test_worker_that_was_reaped_meanwhile_claims_nothing(
    store: SqliteStore,
    calls: Any,
    sources: ManualSources,
    path: Path,
) -> None:
    (made,) = store.run(calls.enqueue([new_run(sources)]))

    def retire() -> None:
        with SqliteStore(path, sources=sources) as other:
            other.run(other.operations.retire("w1"))

    with meanwhile("claimable", retire):
        assert cycle(store).claimed == ()
    assert store.run(calls.get_run(RunRef("default", made.id))).status is Status.QUEUED
    assert cycle(store).refused


@pytest.mark.parametrize("end", ["expires_in", "deadline_in"])
def test_claim_passes_over_what_is_over(
    store: SqliteStore, calls: Any, sources: ManualSources, end: str
) -> None:
    """Between runs that it takes, so that they are no unbroken range of the queue."""
    new = [new_run(sources, **fields) for fields in ({}, {end: 5.0}, {})]
    made = [run.id for run in store.run(calls.enqueue(new))]
    sources.clock.advance(10.0)
    assert [run.id for run in cycle(store).claimed] == [made[0], made[2]]
    assert store.run(calls.get_run(RunRef("default", made[1]))).status is Status.QUEUED


# -- the answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_busy_file_does_not_repeat_what_is_written(
    store: SqliteStore,
    calls: Any,
    sources: ManualSources,
    face: str,
) -> None:
    def refuse() -> None:
        raise apsw.BusyError("the log is being recovered")

    store.run(calls.enqueue([new_run(sources) for _ in range(5)]))
    first = cycle(store, limit=2).claimed
    call = calls.cycle("w1", 2, [succeeded(run) for run in first], Want(limit=2, jobs=(JOB,)))
    with meanwhile("taken", refuse):
        reply = store.run(call) if face == "sync" else await store.arun(call)

    assert reply.lost == ()
    assert len(reply.claimed) == 2
    assert len(cycle(store).claimed) == 1


async def test_writer_does_not_repeat_what_is_written_but_cannot_be_read(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    def refuse() -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    store.run(calls.enqueue([new_run(sources) for _ in range(3)]))
    with meanwhile("taken", refuse), pytest.raises(StoreError, match="is damaged"):
        await store.arun(calls.cycle("w1", 1, [], Want(limit=1, jobs=(JOB,))))
    assert len(cycle(store).claimed) == 2


def test_run_without_a_record_is_damage(
    store: SqliteStore, calls: Any, sources: ManualSources, path: Path
) -> None:
    (made,) = store.run(calls.enqueue([new_run(sources)]))
    raw = apsw.Connection(str(path))
    raw.execute("delete from runs")
    raw.close()
    with pytest.raises(StoreError, match=f"damaged .*{made.id}"):
        cycle(store)


# -- more than one statement takes ---------------------------------------------------------------


def test_many_tenants_and_queues_are_written_in_parts(
    store: SqliteStore, calls: Any, sources: ManualSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish, "MOST_AT_ONCE", 4)
    names = [f"n{n}" for n in range(7)]
    new = [new_run(sources, tenant=name, queue=name) for name in names for _ in range(2)]
    store.run(calls.enqueue(new))
    first = cycle(store, limit=7).claimed
    with traced(store) as seen:
        reply = cycle(store, [succeeded(run) for run in first], limit=100)

    assert writes(seen)[0] == "begin immediate"  # all of them or none
    assert reply.lost == ()
    assert len(reply.claimed) == 7
    assert set(reply.marks) <= set(names)
    assert all(store.run(calls.has_ended(RunRef(run.tenant, run.id))) for run in first)
    assert cycle(store, [succeeded(run) for run in first]).lost == tuple(
        Held(run.tenant, run.id, run.token) for run in first
    )


# -- the connection ------------------------------------------------------------------------------


def test_connection_can_be_made_ready_twice(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    """As after a Ctrl-C at the end of the first time."""
    store._own().blocking._current = False
    assert len(store.run(calls.enqueue([new_run(sources)]))) == 1


def test_callers_can_change_tables_of_their_own(store: SqliteStore, calls: Any) -> None:
    with store.transaction() as tx:
        tx.execute("create table mine (a)")
        tx.execute("alter table mine rename to ours")
        tx.execute("alter table ours rename column a to b")
        tx.execute("alter table ours add column c")
        tx.execute("alter table ours drop column b")
        tx.execute("insert into ours values (1)")
        tx.execute("drop table ours")


# -- sweeps --------------------------------------------------------------------------------------

DUE: dict[str, Callable[[SqliteStore, ManualSources], object]] = {
    "timer": lambda store, sources: add(store, sources, delay=5.0),
    "expired, ready": lambda store, sources: add(store, sources, expires_in=5.0),
    "expired timer": lambda store, sources: add(store, sources, delay=50.0, expires_in=5.0),
    "overrun, ready": lambda store, sources: add(store, sources, deadline_in=5.0),
    "overrun timer": lambda store, sources: add(store, sources, delay=50.0, deadline_in=5.0),
    "overrun lease": lambda store, sources: leased(store, sources, lease=5.0, deadline_in=5.0),
    "dead worker": lambda store, sources: leased(store, sources, lease=5.0),
    "worker without a row": lambda store, sources: forgotten(store, sources),
}


def add(store: SqliteStore, sources: ManualSources, **fields: Any) -> None:
    store.run(store.operations.enqueue([new_run(sources, **fields)]))


def leased(store: SqliteStore, sources: ManualSources, *, lease: float, **fields: Any) -> None:
    add(store, sources, **fields)
    store.run(store.operations.register(new_worker("w2"), lease))
    want = Want(limit=1, jobs=(JOB,))
    (_,) = store.run(store.operations.cycle("w2", 1, [], want)).claimed


def forgotten(store: SqliteStore, sources: ManualSources) -> None:
    leased(store, sources, lease=600.0)
    raw = apsw.Connection(str(store.path))
    raw.execute("delete from workers where id = 'w2'")
    raw.close()


@pytest.mark.parametrize("what", DUE)
def test_sweep_without_a_transaction_sees_what_is_due(
    store: SqliteStore, calls: Any, sources: ManualSources, what: str
) -> None:
    sweep: dict[str, Any] = {"dispatch": True, "expire": True, "reap": True, "spare": False}
    DUE[what](store, sources)
    sources.clock.advance(11.0)
    if what == "overrun lease":
        store.run(calls.renew("w2", 5.0, [], 0))  # its worker is alive
    reply = store.run(calls.sweep(**sweep, max_crashes=3, limit=10))
    done = reply.expired + reply.overrun + reply.reaped + reply.crashed + len(reply.dispatched)
    assert done == 1
    again = store.run(calls.sweep(**sweep, max_crashes=3, limit=10))
    assert again.expired + again.overrun + again.reaped + len(again.dispatched) == 0


def test_queue_is_named_once_however_often_it_is_asked_for(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    store.run(calls.enqueue([new_run(sources) for _ in range(3)]))
    assert len(cycle(store, queues=(QUEUE, QUEUE), limit=2).claimed) == 2
    assert len(cycle(store, queues=(QUEUE, QUEUE)).claimed) == 1
