"""Calls that PostgreSQL undoes as a whole, for a deadlock or an old snapshot: they are repeated.

Nothing is left to chance. Our calls take their rows in one order, so a deadlock takes somebody who
does not: a caller, in a transaction of its own. It waits first and does not look for a cycle; our
call closes the cycle, looks at once, and so is the one that is undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

import psycopg
import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, Face, held_of, make_finish, raw, requires
from tests.conformance.places import Place, PostgresPlace, opened
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.sources import Sources
from windlass.store.interface import Call, Store

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
Take = Callable[[Connection, str], object]

PATIENCE = 30.0
ENQUEUE = """
select id::text from windlass.enqueue('greet', '{}', p_queue => 'main', p_priority => 0,
                                      p_key => %s)
"""
WAITING = """
select count(*) from pg_stat_activity
 where datname = current_database() and wait_event_type = 'Lock'
"""


@pytest.fixture(params=["sync", "async"])
def open_ours(request: pytest.FixtureRequest, place: Place) -> Iterator[Callable[..., Driver]]:
    """Opens a driver through one of the faces; its connections look for deadlocks at once."""
    assert isinstance(place, PostgresPlace)
    with ExitStack() as stack:

        def made(**settings: str) -> Driver:
            eager = place.having(deadlock_timeout="1ms", **settings)
            store = stack.enter_context(eager.open(Sources.system()))
            face = store.run if request.param == "sync" else on_a_loop(store)
            tables = stack.enter_context(opened(place))
            return Driver(store, face, Sources.system(), tables)

        yield made


@pytest.fixture
def ours(open_ours: Callable[..., Driver]) -> Driver:
    """One with the usual settings."""
    return open_ours()


def on_a_loop(store: Store) -> Face:
    """The async face, on a loop of each call's own."""

    async def arun(call: Call[T]) -> T:
        try:
            return await store.arun(call)
        finally:
            await store.aclose()

    def face(call: Call[T]) -> T:
        return asyncio.run(arun(call))

    return face


@pytest.fixture
def caller(place: Place) -> Iterator[Connection]:
    """Somebody's connection; it waits for a lock for ever, rather than be undone."""
    assert isinstance(place, PostgresPlace)
    with psycopg.connect(place.url, options="-c deadlock_timeout=1h") as conn:
        yield conn


def waiting(place: Place, count: int) -> None:
    """Wait until so many wait for a lock."""
    assert isinstance(place, PostgresPlace)
    with psycopg.connect(place.url, autocommit=True) as look:
        deadline = Sources.system().clock.monotonic() + PATIENCE
        while look.execute(WAITING).fetchone() != (count,):
            assert Sources.system().clock.monotonic() < deadline, f"never {count} that wait"


def in_a_knot(
    place: Place, caller: Connection, call: Callable[[], T], take: Take, names: tuple[str, ...]
) -> T:
    """Let a call, which takes the three in this order, meet a caller who takes the last first."""
    assert isinstance(place, PostgresPlace)
    first, second, third = names
    with ThreadPoolExecutor(2) as pool, psycopg.connect(place.url) as gate:
        take(caller, third)
        take(gate, second)
        ours: Future[T] = pool.submit(call)
        waiting(place, 1)  # it has the first, and waits for the second
        theirs = pool.submit(take, caller, first)
        waiting(place, 2)
        gate.rollback()
        theirs.result(PATIENCE)  # ours was undone, or this would wait for an hour
        caller.commit()
        return ours.result(PATIENCE)


def sound(drive: Driver) -> None:
    """Nothing is wrong with the history."""
    assert violations(History.read(drive.tables)) == []


@requires("parallel_writers")
def test_an_enqueue_that_was_undone_by_a_deadlock_is_repeated(
    place: Place, ours: Driver, caller: Connection
) -> None:
    def take(conn: Connection, key: str) -> str:
        (run,) = conn.execute(ENQUEUE, (key,)).fetchone() or ("",)
        theirs[key] = run
        return str(run)

    theirs: dict[str, str] = {}
    keys = ("a", "b", "c")
    batch = [ours.new(key=key, input=raw({})) for key in keys]

    made = in_a_knot(place, caller, lambda: ours.call(ours.ops.enqueue(batch)), take, keys)

    # The first key went to the caller although our call had taken it before: it was undone.
    assert [one.id for one in made] == [theirs["a"], batch[1].id, theirs["c"]]
    assert [one.created for one in made] == [False, True, False]
    assert {row["id"] for row in ours.rows("runs")} == {one.id for one in made}
    assert len(ours.rows("ready")) == 3
    sound(ours)


@requires("parallel_writers")
def test_a_discard_that_was_undone_by_a_deadlock_counts_once(
    place: Place, ours: Driver, caller: Connection
) -> None:
    """The ends of attempts wait for nobody, so they are never undone like this."""

    def take(conn: Connection, run: str) -> None:
        conn.execute("select from windlass.runs where id = %s for update", (run,))

    held = sorted(ours.start_many(3), key=lambda run: run.id)
    ours.finish_all([make_finish(run, Outcome.FAILED) for run in held])
    names = tuple(run.id for run in held)
    discard = ours.ops.discard("default", names)

    assert in_a_knot(place, caller, lambda: ours.call(discard), take, names) == 3

    assert [ours.trail(run.ref).count(EventType.DISCARDED) for run in held] == [1, 1, 1]
    sound(ours)


@requires("parallel_writers")
def test_ends_wait_for_no_lock_and_so_close_no_knot(
    place: Place, ours: Driver, caller: Connection
) -> None:
    held = ours.start_many(3)
    caller.execute("select windlass.cancel('default', %s)", (held[1].id,))

    reply = ours.send_ends([make_finish(run, Outcome.SUCCEEDED) for run in held])

    assert reply.lost == ()
    assert reply.busy == (held_of(held[1]),)
    assert [ours.get(run.ref).status for run in held] == ["succeeded", "running", "succeeded"]
    caller.commit()
    again = ours.finish(held[1], Outcome.SUCCEEDED)
    assert (again.lost, again.busy) == ((), ())
    sound(ours)


@requires("parallel_writers")
def test_a_call_whose_snapshot_became_too_old_is_repeated(
    place: Place, open_ours: Callable[..., Driver], caller: Connection
) -> None:
    """Where an administrator has made `serializable` the default of a role or a database."""
    ours = open_ours(default_transaction_isolation="serializable")
    (theirs,) = caller.execute(ENQUEUE, ("k",)).fetchone() or ("",)
    with ThreadPoolExecutor(1) as pool:
        call = ours.ops.enqueue([ours.new(key="k", input=raw({}))])
        made = pool.submit(ours.call, call)
        waiting(place, 1)
        caller.commit()

        (found,) = made.result(PATIENCE)

    assert (found.id, found.created) == (theirs, False)
    assert len(ours.rows("runs")) == 1
    sound(ours)
