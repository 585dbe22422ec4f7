"""Locks: everybody takes rows in one order, so nobody is undone for a deadlock, step by step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

import msgspec
import psycopg
import pytest

from tests.conformance.desk import Desk
from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, Opened, held_of, make_finish, raw, requires
from tests.conformance.places import Place, PostgresPlace, opened
from tests.conformance.test_undone import PATIENCE, waiting
from tests.fixtures.postgres import change_lock_waits
from windlass.domain.outcome import Outcome
from windlass.domain.run import JobRow
from windlass.domain.states import Status
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore
from windlass.store.queries import load_queries

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

pytestmark = requires("parallel_writers", "server")


@pytest.fixture
def drive(open_real: Opened) -> Driver:
    """A worker, on the machine's clock."""
    return open_real()


@pytest.fixture
def other(place: Place) -> Iterator[Connection]:
    """Somebody who looks for a deadlock as soon as he waits, and does not wait long."""
    assert isinstance(place, PostgresPlace)
    settings = "-c deadlock_timeout=1ms -c lock_timeout=2s"
    with psycopg.connect(place.url, options=settings) as conn:
        yield conn


def test_ends_of_two_kinds_wait_for_nobody(place: Place, drive: Driver, other: Connection) -> None:
    """The success is of the second run, the failure of the first; a schedule stops both."""
    first, second = sorted(drive.start_many(2), key=lambda run: run.id)
    ends = [
        make_finish(second, Outcome.SUCCEEDED, result=raw(1)),
        make_finish(first, Outcome.RETRY),
    ]
    stop = "select windlass.stop_run('default', %s, 'a later slot has come')"
    other.execute(stop, (first.id,))

    reply = drive.send_ends(ends)

    assert (reply.lost, reply.busy) == ((), (held_of(first),))
    other.execute(stop, (second.id,))  # it has ended: nobody waits for anybody
    other.commit()
    assert drive.send_ends(ends[1:]).busy == ()
    assert drive.get(first.ref).status is Status.CANCELED
    assert drive.get(second.ref).status is Status.SUCCEEDED
    assert violations(History.read(drive.tables)) == []


def test_a_discard_does_not_wait_for_the_end_of_a_live_run(
    drive: Driver, other: Connection
) -> None:
    dead, live = drive.start_many(2)
    drive.finish(dead, Outcome.FAILED)
    other.execute(
        "select windlass.succeed(array['default'], array[%s::uuid], array[%s::bigint])",
        (live.id, live.token),
    )
    with psycopg.connect(other.info.dsn, password=other.info.password) as operator:
        operator.execute("set lock_timeout = '2s'")

        found = operator.execute(
            "select windlass.discard('default', array[%s, %s]::uuid[])", (dead.id, live.id)
        ).fetchone()

    other.commit()
    assert found == (1,)
    assert violations(History.read(drive.tables)) == []


# -- two who enqueue ------------------------------------------------------------------------------


@pytest.fixture
def strict(place: Place) -> Iterator[Callable[[], Driver]]:
    """Opens drivers that look for deadlocks at once, and do not repeat what one has undone.

    Workers' calls give a lock up after half a second: on a machine that stands still for so long,
    the first would be gone before the second has come.
    """
    assert isinstance(place, PostgresPlace)
    change_lock_waits(place.url, "500ms", "20s")
    url = f"{place.url}?options=-c%20deadlock_timeout%3D10ms"
    with ExitStack() as stack:
        stack.callback(change_lock_waits, place.url, "20s", "500ms")  # others use the database next

        def made() -> Driver:
            sources = Sources.system()
            store = stack.enter_context(PostgresStore(url, sources=sources, patience=0))
            return Driver(store, store.run, sources, stack.enter_context(opened(place)))

        yield made


def crossing(
    place: Place,
    hold: Callable[[Connection], object],
    first: Callable[[], T],
    second: Callable[[], T],
) -> tuple[T, T]:
    """Run two calls that need what a third holds; it lets go once both wait, for it or for each
    other. Returns what both answered."""
    assert isinstance(place, PostgresPlace)
    with psycopg.connect(place.url) as porter, ThreadPoolExecutor(2) as pool:
        hold(porter)
        one = pool.submit(first)
        waiting(place, 1)
        two = pool.submit(second)
        waiting(place, 2)
        porter.rollback()
        return one.result(PATIENCE), two.result(PATIENCE)


@pytest.mark.parametrize("kind", ["plain", "with options", "with keys"])
def test_the_same_ids_in_opposite_order_are_enqueued_by_two_at_once(
    place: Place, strict: Callable[[], Driver], kind: str
) -> None:
    """The middle one is held by a third, so that each of the two has one of the others."""
    one, two = strict(), strict()
    batch = [one.new(tags=() if kind == "plain" else ("t",)) for _ in range(3)]
    if kind == "with keys":
        batch = [msgspec.structs.replace(run, key=run.id) for run in batch]

    def hold(porter: Connection) -> None:
        porter.execute(
            "select windlass.enqueue('greet', p_id => %s, p_queue => 'q', p_priority => 0)",
            (batch[1].id,),
        )

    made = crossing(
        place,
        hold,
        lambda: one.call(one.ops.enqueue(batch)),
        lambda: two.call(two.ops.enqueue(batch[::-1])),
    )

    assert [[run.created for run in answer] for answer in made] == [[True] * 3, [False] * 3]
    assert violations(History.read(one.tables)) == []


def test_schedules_are_stored_by_key_and_by_id_by_two_at_once(
    place: Place, strict: Callable[[], Driver]
) -> None:
    """The order of their keys is not that of their ids."""
    one, two = Desk(strict()), Desk(strict())
    by_id = [one.new(key=key) for key in ("c", "b", "a")]
    one.store(*by_id)
    by_key = [msgspec.structs.replace(new, id=one.new().id, input=raw(1)) for new in by_id]
    unnamed = [msgspec.structs.replace(new, key=None, input=raw(2)) for new in by_id]

    def hold(porter: Connection) -> None:
        porter.execute("select from windlass.schedules where key = 'b' for update")

    made = crossing(place, hold, lambda: one.store(*by_key), lambda: two.store(*unnamed))

    assert [[stored.what for stored in answer] for answer in made] == [["changed"] * 3] * 2
    assert {stored.row.version for stored in made[1]} == {3}


def test_definitions_are_stored_in_opposite_order_by_two_at_once(
    place: Place, strict: Callable[[], Driver]
) -> None:
    one, two = strict(), strict()
    rows = [JobRow(name=name, queue="q") for name in ("a", "b", "c")]
    one.call(one.ops.sync_jobs(rows))
    first, second = ([msgspec.structs.replace(row, queue=new) for row in rows] for new in "xy")

    def hold(porter: Connection) -> None:
        porter.execute("select from windlass.jobs where name = 'b' for update")

    crossing(
        place,
        hold,
        lambda: one.call(one.ops.sync_jobs(first)),
        lambda: two.call(two.ops.sync_jobs(second[::-1])),
    )

    assert {row["queue"] for row in one.rows("jobs")} == {"y"}


def test_runs_are_discarded_in_opposite_order_by_two_at_once(
    place: Place, strict: Callable[[], Driver]
) -> None:
    one, two = strict(), strict()
    held = one.start_many(3)
    one.finish_all([make_finish(run, Outcome.FAILED) for run in held])
    dead = sorted(run.id for run in held)

    def hold(porter: Connection) -> None:
        porter.execute("select from windlass.runs where id = %s for update", (dead[1],))

    counted = crossing(
        place,
        hold,
        lambda: one.call(one.ops.discard("default", dead)),
        lambda: two.call(two.ops.discard("default", dead[::-1])),
    )

    assert counted == (3, 0)
    assert violations(History.read(one.tables)) == []


# -- waits are bounded ----------------------------------------------------------------------------

BOUNDS = """
select p.proname, p.prosrc ~* '(insert into|update windlass|delete from|for (no )?key|for update)',
       exists (select 1 from unnest(p.proconfig) c where c like 'lock_timeout=%%')
  from pg_proc p where p.pronamespace = 'windlass'::regnamespace
"""
READS = {
    "backlog", "coming_schedules", "count_runs", "due_schedules", "find_runs", "get_artifact",
    "get_batch", "list_failed_units", "list_units",
    "find_artifact", "find_place", "known_artifacts", "list_artifacts", "list_event_facts",
    "get_job", "get_runs", "get_schedule", "has_ended", "ids_between", "inspect_demand",
    "list_audit", "list_pauses",
    "inspect_overdue", "inspect_workers", "json_text", "list_approvals", "list_attempts",
    "list_children", "list_events", "list_feed", "list_follows", "list_generations", "list_jobs",
    "list_logs", "list_schedules", "list_signals", "list_slots", "list_steps", "list_workers",
    "measure_growth",
    "look_for_ends", "now", "page_runs", "queue_ages", "schema_state",
}  # fmt: skip
INNER = {
    "advance_schedules", "continue_runs", "drop_slots", "edit_input", "edit_tags",
    "edit_timeout", "end_now", "forget_failed_children", "hold_followers", "pause_run", "put_aside",
    "resume_run",
    "hold_key", "hold_live", "hold_runs", "hold_schedule", "hold_schedules",
    "hold_worker", "keep_key", "lease_heads", "lease_named", "lock_schedule", "make_moves",
    "move_children", "note_audit", "note_child", "note_sweep", "page_events", "prune_live",
    "put_schedule",
    "reopen_run", "start_failure_runs", "start_slots", "stop_run", "take_back", "take_key",
    "take_result",
    "take_waiting",
}  # fmt: skip
"""Those that functions call, under their own bound, and nobody else."""


def test_every_function_that_locks_anything_waits_for_a_bounded_time(place: Place) -> None:
    assert isinstance(place, PostgresPlace)
    queries = load_queries("postgres").values()
    called = {name for sql in queries for name in re.findall(r"windlass\.(\w+)\(", sql)}
    with psycopg.connect(place.url) as conn:
        found = conn.execute(BOUNDS, ()).fetchall()

    bounded = {name for name, _, bound in found if bound}
    assert called - bounded == READS
    assert {name for name, locks, _ in found if locks} - bounded == INNER
