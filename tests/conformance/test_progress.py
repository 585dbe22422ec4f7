"""Progress: the latest word counts, for many runs at once, each under the token of its lease."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.conformance.kit import ABSENT, LEASE, Driver, held_of, requires, told
from windlass.domain.event import EventType
from windlass.domain.listing import RunFilter
from windlass.domain.outcome import Outcome
from windlass.domain.progress import Detail, Units
from windlass.domain.run import Held, JobRow, ProgressReply, ProgressWrite, RunRef
from windlass.domain.step import StepKind, StepState, StepWrite

DETAIL = Detail(
    units=Units(done=3, failed=1, total=10, rate=2.5),
    phases=("load", "séance \u2713"),
    place=1,
    own=0.25,
    took=1.5,
)


def record(drive: Driver, *writes: ProgressWrite) -> ProgressReply:
    reply = drive.call(drive.ops.record_progress(list(writes)))
    return ProgressReply(lost=tuple(reply.lost), busy=tuple(reply.busy))


def lost(*held: Held) -> ProgressReply:
    return ProgressReply(lost=held)


def test_the_latest_progress_is_kept(drive: Driver) -> None:
    held = drive.start()

    first = told(held_of(held), 0.25, "a quarter", DETAIL)
    assert record(drive, first).lost == ()
    drive.advance(2)
    assert record(drive, told(held_of(held), 0.5)).lost == ()

    run = drive.get(held.ref)
    assert (run.progress, run.progress_message, run.progress_detail) == (0.5, None, None)
    assert run.progress_at == drive.now
    assert drive.trail(held.ref) == [EventType.ENQUEUED, EventType.STARTED]
    assert len(drive.rows("progress")) == 1


def test_units_and_phases_are_read_as_they_were_told(drive: Driver) -> None:
    held = drive.start()
    record(drive, told(held_of(held), 0.625, "on it", DETAIL))

    run = drive.get(held.ref)
    assert (run.progress, run.progress_detail) == (0.625, DETAIL)
    (listed,) = drive.call(drive.ops.list_runs(RunFilter()))
    assert listed.progress_detail == DETAIL


def test_many_runs_are_written_at_once_and_one_that_is_lost_spoils_no_other(
    drive: Driver,
) -> None:
    one, two, three = (held_of(drive.start()) for _ in range(3))
    stale = Held(two.tenant, two.id, two.token + 1)

    reply = record(drive, told(one, 0.1, "one"), told(stale, 0.2), told(three, 0.3), told(one, 0.4))

    assert reply == lost(stale)
    found = [drive.get(RunRef(h.tenant, h.id)).progress for h in (one, two, three)]
    assert found == [0.4, None, 0.3]


def test_nothing_to_write_is_fine(drive: Driver) -> None:
    assert record(drive).lost == ()


@pytest.mark.parametrize(
    "named",
    [
        lambda held: Held(held.tenant, held.id, held.token + 1),
        lambda held: Held(held.tenant, held.id, held.token - 1),
        lambda held: Held("acme", held.id, held.token),
        lambda held: Held(held.tenant, ABSENT, held.token),
        lambda held: Held(held.tenant, "not-an-id", held.token),
    ],
)
def test_progress_without_the_lease_is_refused(drive: Driver, named: object) -> None:
    held = drive.start()
    assert callable(named)

    assert record(drive, told(named(held), 0.5, "mine")) == lost(named(held))

    assert drive.rows("progress") == []


def test_progress_of_a_reaped_worker_is_refused(drive: Driver) -> None:
    held = drive.start()
    drive.advance(LEASE)
    drive.sweep(reap=True)

    assert record(drive, told(held_of(held), 0.5)) == lost(held_of(held))


def test_progress_is_still_there_when_the_run_has_ended(drive: Driver) -> None:
    held = drive.start()
    record(drive, told(held_of(held), 1.0, "done"))

    drive.finish(held, Outcome.SUCCEEDED)

    assert drive.get(held.ref).progress == 1.0
    assert record(drive, told(held_of(held), 0.1, "late")) == lost(held_of(held))
    assert drive.get(held.ref).progress_message == "done"


def test_a_phase_that_is_done_has_one_event_of_its_own_type(drive: Driver) -> None:
    held = drive.start()
    writes = [
        StepWrite(path="load", kind=StepKind.PHASE, state=StepState.DONE),
        StepWrite(path="load/part", kind=StepKind.STEP, state=StepState.DONE),
        StepWrite(path="send", kind=StepKind.PHASE, state=StepState.FAILED, failures=1),
    ]
    drive.call(drive.ops.record_steps(held_of(held), writes))

    own = [(event.type, event.data) for event in drive.events(held.ref)[2:]]
    assert own == [
        (EventType.PHASE_COMPLETED, {"step": "load"}),
        (EventType.STEP_SUCCEEDED, {"step": "load/part"}),
        (EventType.STEP_FAILED, {"step": "send"}),
    ]
    fed = [(event.type, event.data) for event in drive.feed(5) if event.subject == held.id]
    assert fed[2:] == own


def test_the_names_of_a_pipelines_phases_are_stored_with_its_job(drive: Driver) -> None:
    names = ("load", "séance", "send")
    drive.call(drive.ops.sync_jobs([JobRow(name="p", queue="main", phases=names)]))
    first = drive.call(drive.ops.get_job("default", "p"))
    assert first is not None
    assert first.phases == names
    drive.advance(1)
    drive.call(drive.ops.sync_jobs([JobRow(name="p", queue="main", phases=names)]))
    again = drive.call(drive.ops.get_job("default", "p"))
    assert again == first, "what is stored already is not written again"
    drive.call(drive.ops.sync_jobs([JobRow(name="p", queue="main", phases=names[:2])]))
    changed = drive.call(drive.ops.get_job("default", "p"))
    assert changed is not None
    assert (changed.phases, changed.updated_at) == (names[:2], drive.now)


@requires("server")
def test_a_lease_that_somebody_has_locked_delays_no_other(drive: Driver, place: Any) -> None:
    one, two = held_of(drive.start()), held_of(drive.start())
    with psycopg.connect(place.url) as other:
        other.execute("select from windlass.leases where id = %s for update", (one.id,))
        reply = record(drive, told(one, 0.1), told(two, 0.2))
        assert reply == ProgressReply(busy=(one,))
    assert record(drive, told(one, 0.3)) == ProgressReply()
    found = [drive.get(RunRef(h.tenant, h.id)).progress for h in (one, two)]
    assert found == [0.3, 0.2]
