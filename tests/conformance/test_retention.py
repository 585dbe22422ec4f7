"""Retention: what is over becomes stale, then goes with everything that hangs on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from tests.conformance.desk import Desk
from tests.conformance.history import History, violations
from tests.conformance.kit import (
    JOB,
    Driver,
    Opened,
    held_of,
    logged,
    make_finish,
    raw,
    ref,
    requires,
)
from tests.conformance.kit import told as report
from tests.conformance.places import Place, PostgresPlace
from windlass.ages import DAY, all_ages
from windlass.domain.artifact import Artifact
from windlass.domain.batch import NewBatch
from windlass.domain.event import EventType
from windlass.domain.failed import FailureHandler
from windlass.domain.outcome import Outcome
from windlass.domain.retention import (
    DEFAULT_STORE_TERMS,
    DEFAULT_TERMS,
    Retention,
    StoreTerms,
    Tidied,
)
from windlass.domain.run import JobRow, RunRef
from windlass.domain.runlog import LogLine
from windlass.domain.states import Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.errors import EventsDeleted, KeyConflict, StoreBusy

OUTLIVE = {"follows.awaited", "runs.enqueued_by", "schedule_slots.run", "run_keys.run"}
"""What may name a run that is gone: another run, a slot, or a key with time left."""

NAMELESS = {
    *("jobs", "workers", "worker_names", "sweeps", "chores", "pauses", "audit", "schema_version"),
    *("schedules", "schedule_gone"),
    *("timers", "ready", "leases", "wakes"),  # of live runs
    *("children", "shards", "unit_failures"),  # of trees: see below
}
"""Tables in which no run of `rich` has a row. Whoever adds one that may have some fills it."""

AGE = 31 * DAY
LIVE = [s for s in Status if s not in (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)]


def tidy(drive: Driver, terms: StoreTerms = DEFAULT_STORE_TERMS, limit: int = 200) -> Tidied:
    """Do all that is due; returns the sums."""
    sums: dict[str, Any] = dict.fromkeys(("stale", "deleted", "pages", "audit", "slots", "keys"), 0)
    places: list[str] = []
    more = True
    while more:
        done = drive.call(drive.ops.tidy(terms, limit))
        sums = {name: count + getattr(done, name) for name, count in sums.items()}
        places += done.locations
        more = done.more
    return Tidied(**sums, locations=tuple(places), more=False)


def keep(drive: Driver, job: str = JOB, **said: Any) -> None:
    """Store a definition that says how long its runs are kept."""
    terms = Retention(**said).terms(DEFAULT_TERMS)
    drive.call(drive.ops.sync_jobs([JobRow(name=job, queue="main", retention=terms)]))


def gone(drive: Driver, run: RunRef) -> bool:
    return drive.call(drive.ops.get_run(run)) is None


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELED])
def test_a_run_becomes_stale_and_then_goes(drive: Driver, outcome: Outcome) -> None:
    run = drive.ended(outcome)
    assert tidy(drive).stale == 0
    drive.advance(7 * DAY - 1)
    assert tidy(drive).stale == 0
    drive.advance(3700)
    assert tidy(drive) == Tidied(stale=1)
    assert drive.get(run).stale_at == drive.now
    assert drive.trail(run)[-1] is EventType.STALE
    assert violations(History.read(drive.tables)) == []

    drive.advance(23 * DAY)
    assert tidy(drive).deleted == 1
    assert gone(drive, run)
    feed = drive.feed(at_least=2)
    if feed[-1].type is not EventType.DELETED:  # others hold it back for a moment
        feed = drive.feed(at_least=len(feed) + 1)
    mine = [event for event in feed if event.subject == run.id]
    assert [event.type for event in mine[-2:]] == [EventType.STALE, EventType.DELETED]
    seqs = [event.seq for event in mine]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


def test_a_stale_run_that_is_reopened_begins_again(drive: Driver) -> None:
    run = drive.bring(Status.SUCCEEDED)
    drive.advance(8 * DAY)
    assert tidy(drive).stale == 1
    drive.retry(run)
    assert drive.get(run).stale_at is None
    assert drive.trail(run)[-2:] == [EventType.STALE, EventType.RETRIED]
    assert violations(History.read(drive.tables)) == []
    drive.advance(40 * DAY)
    assert tidy(drive) == Tidied(pages=5)  # it lives: only its events of old went
    drive.finish(drive.take(run), Outcome.SUCCEEDED)
    drive.advance(8 * DAY)
    assert tidy(drive).stale == 1


@pytest.mark.parametrize("status", LIVE)
def test_what_has_not_ended_stays(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    drive.advance(400 * DAY)
    tidy(drive)
    assert not gone(drive, run)
    assert drive.call(drive.ops.delete_runs(run.tenant, [run.id])).deleted == 0


def rich(drive: Driver) -> set[str]:
    """Runs with everything that may hang on one; all have ended."""
    desk = Desk(drive)
    desk.fire(desk.put(key="k"))
    (slot_run,) = drive.list(limit=100)
    drive.cancel(ref(slot_run))
    held = drive.start(key="once", tags=("a", "b"))
    held_ttl = drive.start(key="timed", key_ttl=DAY)
    steps = [
        StepWrite(path="one", kind=StepKind.STEP, state=StepState.DONE, value=raw(1)),
        StepWrite(path="go", kind=StepKind.SIGNAL, state=StepState.WAITING, signal="go"),
    ]
    drive.call(drive.ops.record_steps(held_of(held), steps))
    drive.call(drive.ops.signal(held.ref, "go", raw(1), None))
    artifact = Artifact(
        id=drive.sources.new_id(), name="a", content_type="text/plain", size=1, sha256="0" * 64,
        location="there", tenant=held.tenant, run=held.id,
    )  # fmt: skip
    drive.call(drive.ops.put_artifact_under(held_of(held), artifact))
    drive.call(
        drive.ops.record_logs(
            [
                logged(
                    held_of(held),
                    LogLine(at=drive.now, level="INFO", logger="shop", message="hello"),
                )
            ]
        )
    )
    drive.call(drive.ops.open_batch(held_of(held), NewBatch(total=1, size=1, shards=1), False))
    drive.call(drive.ops.stage_units(held.tenant, held.id, 0, [raw(1)], 60.0))
    drive.call(drive.ops.record_progress([report(held_of(held), 0.5, "half")]))
    drive.finish(held, Outcome.CONTINUED)
    after = drive.take(held.ref)
    drive.finish(after, Outcome.RETRY, delay=0.0)
    drive.finish(drive.take(held.ref), Outcome.FAILED)
    drive.finish(held_ttl, Outcome.SUCCEEDED)
    follower = drive.add(after=(held.id,), after_failure="run")
    drive.sweep(dispatch=True)
    drive.finish(drive.take(follower), Outcome.SUCCEEDED)
    return {slot_run, held.id, held_ttl.id, follower.id}


def references(drive: Driver) -> Iterator[tuple[str, set[str]]]:
    """Every column of every table that can name a run, and whom it names."""
    for table, rows in drive.tables.everything().items():
        for column, values in rows.items():
            yield f"{table}.{column}", values


def test_nothing_of_a_deleted_run_is_left_in_any_table(drive: Driver) -> None:
    runs = rich(drive)
    full = {place for place, named in references(drive) if named & runs}
    filled = {place.partition(".")[0] for place in full}
    assert set(drive.tables.everything()) - filled <= NAMELESS
    drive.advance(AGE)
    done = tidy(drive)
    drive.advance(2 * DAY)  # what was kept for others goes in the next lap
    assert done.deleted + tidy(drive).deleted == len(runs)
    assert done.locations == ("there",)
    left = {place for place, named in references(drive) if named & runs}
    assert left <= OUTLIVE


def test_a_tree_goes_from_its_leaves_once_its_root_has_ended(drive: Driver) -> None:
    from tests.conformance.test_children import park, start

    parent = drive.start()
    start(drive, parent, 2)
    park(drive, parent, "kids")
    children = [row["id"] for row in drive.rows("children", parent=parent.id)]
    for child in children:
        drive.finish(drive.take(ref(child)), Outcome.SUCCEEDED)
    drive.advance(AGE)
    assert tidy(drive).deleted == 0  # the parent may still need them
    drive.sweep(dispatch=True)
    drive.finish(drive.take(parent.ref), Outcome.SUCCEEDED)
    drive.advance(AGE)
    assert tidy(drive).deleted == 2
    assert not gone(drive, parent.ref)
    drive.advance(2 * DAY)
    assert tidy(drive).deleted == 1
    assert drive.rows("children") == []


def test_a_run_that_another_waits_for_stays(drive: Driver) -> None:
    awaited, other = drive.add(), drive.add()
    follower = drive.add(after=(awaited.id, other.id))
    drive.finish(drive.take(awaited), Outcome.SUCCEEDED)
    drive.advance(AGE)
    assert tidy(drive).deleted == 0
    assert not gone(drive, awaited)
    drive.finish(drive.take(other), Outcome.SUCCEEDED)
    drive.sweep(dispatch=True)
    drive.finish(drive.take(follower), Outcome.SUCCEEDED)
    drive.advance(AGE)
    assert tidy(drive).deleted == 3


def test_a_failed_run_stays_until_its_handler_has_run(drive: Driver) -> None:
    handler = FailureHandler(job="handle", argument="failed")
    drive.call(drive.ops.sync_jobs([JobRow(name=JOB, queue="main", on_failure=handler)]))
    run = drive.ended(Outcome.FAILED)
    drive.advance(AGE)
    assert tidy(drive).deleted == 0
    (handling,) = [ident for ident in drive.list(limit=10) if ident != run.id]
    drive.finish(drive.take(ref(handling)), Outcome.SUCCEEDED)
    drive.advance(2 * DAY)
    assert tidy(drive).deleted == 1
    assert gone(drive, run)


def test_a_job_says_how_long_by_status(drive: Driver) -> None:
    keep(drive, delete_after={"succeeded": "1d", "failed": "never"})
    good, bad = drive.ended(Outcome.SUCCEEDED), drive.ended(Outcome.FAILED)
    drive.advance(DAY + 4000)
    assert tidy(drive).deleted == 1
    assert gone(drive, good)
    drive.advance(1_000 * DAY)
    tidy(drive)
    assert not gone(drive, bad)
    keep(drive, delete_after="90d")  # the walk begins again where the lengths change
    drive.advance(61)
    assert tidy(drive).deleted == 1


def test_the_last_runs_of_a_job_stay(drive: Driver) -> None:
    keep(drive, keep_last=3)
    runs = [drive.ended(Outcome.SUCCEEDED) for _ in range(5)]
    drive.advance(AGE)
    assert tidy(drive).deleted == 2
    assert [gone(drive, run) for run in runs] == [True, True, False, False, False]
    drive.advance(400 * DAY)
    assert tidy(drive).deleted == 0


def test_ids_that_tell_another_time_go_as_well(drive: Driver) -> None:
    """Clocks of clients are off, and an id may be anything: a lap sees all of them."""
    random = drive.add(id="d0000000-0000-4000-8000-000000000000")
    old = drive.add(id="00000000-0001-7000-8000-000000000000")
    for run in (random, old):
        drive.finish(drive.take(run), Outcome.SUCCEEDED)
    drive.advance(AGE)
    assert tidy(drive).deleted == 2


def test_much_goes_piece_by_piece(drive: Driver) -> None:
    held = drive.start_many(50)
    drive.finish_all([make_finish(run, Outcome.SUCCEEDED) for run in held])
    late = drive.add()
    drive.advance(AGE)
    pieces = []
    while True:
        done = drive.call(drive.ops.tidy(DEFAULT_STORE_TERMS, 7))
        pieces.append(done.deleted)
        if not done.more:
            break
    assert sum(pieces) == 50
    assert max(pieces) <= 7
    assert drive.list(limit=100) == [late.id]


def test_a_key_goes_with_its_run_unless_it_has_time_left(drive: Driver) -> None:
    keep(drive, delete_after="1h")
    plain = drive.add(key="plain")
    timed = drive.add(key="timed", key_ttl=10 * DAY)
    for run in (plain, timed):
        drive.finish(drive.take(run), Outcome.SUCCEEDED)
    drive.advance(2 * 3600)
    assert tidy(drive).deleted == 2
    assert drive.add(key="plain").id != plain.id
    (answer,) = drive.enqueue(drive.new(key="timed"))
    assert (answer.created, answer.id) == (False, timed.id)
    with pytest.raises(KeyConflict):
        drive.enqueue(drive.new(key="timed", input=raw({"n": 2})))
    drive.advance(10 * DAY)
    assert tidy(drive).keys == 1
    assert drive.rows("run_keys", key="timed") == []


def test_old_pages_go_and_a_reader_from_before_hears_of_it(drive: Driver) -> None:
    run = drive.ended(Outcome.SUCCEEDED)
    first, *_, last = drive.feed(at_least=3)
    drive.advance(10 * DAY)
    fresh = drive.add()
    drive.feed(at_least=4)
    drive.advance(21 * DAY)
    terms = StoreTerms(runs=DEFAULT_TERMS)
    assert tidy(drive, terms, 1).pages == 3
    assert [e.subject for e in drive.feed() if e.type is EventType.ENQUEUED] == [fresh.id]
    with pytest.raises(EventsDeleted, match="are deleted"):
        drive.call(drive.ops.list_feed(first.place, 10))
    after = drive.call(drive.ops.list_feed(last.place, 10))  # it has seen all that is gone
    assert after[0].subject == fresh.id
    assert gone(drive, run)


def test_audit_and_slots_go_by_their_own_ages(drive: Driver) -> None:
    desk = Desk(drive)
    schedule = desk.put(key="k")
    desk.fire(schedule)
    run = drive.add()
    drive.cancel(run)
    terms = replace_terms(audit=100 * DAY, slots=50 * DAY)
    drive.advance(60 * DAY)
    done = tidy(drive, terms)
    assert (done.slots, done.audit) == (1, 0)
    drive.advance(60 * DAY)
    assert tidy(drive, terms).audit == 1
    assert drive.rows("audit") == []


def replace_terms(**ages: float) -> StoreTerms:
    return StoreTerms(runs=DEFAULT_TERMS, **ages)


def test_two_janitors_share_the_work(drive: Driver, place: Place) -> None:
    with place.open(drive.sources) as store:
        _share(drive, Driver(store, store.run, drive.sources, drive.tables))


def _share(drive: Driver, other: Driver) -> None:
    held = drive.start_many(40)
    drive.finish_all([make_finish(run, Outcome.SUCCEEDED) for run in held])
    drive.advance(AGE)
    deleted, more = 0, True
    while more:
        ones = [side.call(side.ops.tidy(DEFAULT_STORE_TERMS, 5)) for side in (drive, other)]
        deleted += sum(one.deleted for one in ones)
        more = any(one.more for one in ones)
    assert deleted == 40
    feed = [e.subject for e in drive.feed(at_least=40) if e.type is EventType.DELETED]
    assert sorted(feed) == sorted(run.id for run in held)


@requires("server")
def test_nobody_waits_for_a_janitor_whose_transaction_is_open(
    drive: Driver, place: Place, open_real: Opened
) -> None:
    """Its runs have ended: whoever works on live ones, or enqueues, meets none of its locks."""
    assert isinstance(place, PostgresPlace)
    keep(drive, stale_after="0s", delete_after="0s")
    other = open_real()
    tidy(other)  # somebody has been here before
    old = [other.ended(Outcome.SUCCEEDED) for _ in range(3)]
    drive.tables.make_due()
    with psycopg.connect(place.url) as janitor:
        sums = janitor.execute(
            "select windlass.tidy(%s::json, 100)",
            (msgspec.json.encode(DEFAULT_STORE_TERMS).decode(),),
        ).fetchone()
        assert sums is not None
        assert sums[0]["deleted"] == 3
        held = other.start(key="k")
        assert other.finish(held, Outcome.SUCCEEDED).busy == ()
        assert other.sweep(dispatch=True, expire=True, reap=True).reaped == 0
        again = other.call(other.ops.tidy(DEFAULT_STORE_TERMS, 100))  # skips what is locked
        assert again.deleted == 0
        janitor.rollback()
    assert not any(gone(drive, run) for run in old)


@requires("server")
def test_a_piece_that_is_broken_off_has_done_nothing(
    drive: Driver, place: Place, open_real: Opened
) -> None:
    assert isinstance(place, PostgresPlace)
    other = open_real()
    keep(drive, stale_after="never", delete_after="0s")
    run = other.ended(Outcome.FAILED)
    before = {table: other.rows(table) for table in ("runs", "failures", "events", "feed")}
    with psycopg.connect(place.url) as holder:
        holder.execute("select 1 from windlass.failures for update")  # in the middle of its work
        with pytest.raises(StoreBusy):  # soon: other tests share the server, and its feed
            other.call(other.ops.tidy(DEFAULT_STORE_TERMS, 10))
    assert {table: other.rows(table) for table in before} == before
    assert tidy(other).deleted == 1
    assert gone(drive, run)


def test_what_is_deleted_by_hand_needs_no_age(drive: Driver) -> None:
    run, live = drive.ended(Outcome.FAILED), drive.add()
    pruned = drive.call(drive.ops.delete_runs("default", [run.id, live.id, "nonsense"]))
    assert (pruned.deleted, pruned.kept) == (1, 0)
    assert gone(drive, run)


def test_lengths_of_never_keep_everything(drive: Driver) -> None:
    run = drive.ended(Outcome.SUCCEEDED)
    kept = type(DEFAULT_TERMS)(stale=all_ages(None), delete=all_ages(None))
    drive.advance(10_000 * DAY)
    assert tidy(drive, StoreTerms(runs=kept, feed=None, audit=None, slots=None)) == Tidied()
    assert not gone(drive, run)
