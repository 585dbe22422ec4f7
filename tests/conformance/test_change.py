"""Another input, other tags, other times for a run that waits; a retry with another input."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import ABSENT, JOB, Driver, Opened, ids, raw, ref, requires, value_of
from tests.conformance.places import Place, PostgresPlace
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Options, RunRef
from windlass.domain.states import Failure, Status
from windlass.errors import (
    BadArguments,
    IllegalTransition,
    KeyConflict,
    PayloadTooLarge,
    RunExpires,
    RunNotFound,
)

NEW = raw({"n": 2})


def told(drive: Driver, run: RunRef) -> Any:
    """What the last event has to say."""
    last = drive.events(run)[-1]
    assert (last.type, last.at) == (EventType.CHANGED, drive.now)
    return last.data


def iso(drive: Driver, seconds: float) -> str:
    """An instant as events have it."""
    return drive.later(seconds).isoformat().replace("+00:00", "Z")


@pytest.mark.both_faces
def test_a_run_starts_with_what_it_was_given_last(drive: Driver) -> None:
    run = drive.add(tags=("a", "b"), options=Options(max_attempts=3, timeout=5.0), deadline_in=10.0)
    before = drive.get(run)
    drive.advance(1)

    record = drive.change(
        run, input=NEW, tags=("b", "c", "b"), timeout=30.0, expires_in=50.0, deadline_in=60.0
    )

    assert record == drive.get(run)
    assert (record.status, value_of(record.input)) == (Status.QUEUED, {"n": 2})
    assert record.tags == ("b", "c")
    assert record.options == Options(max_attempts=3, timeout=30.0)
    assert (record.expires_at, record.deadline_at) == (drive.later(50), drive.later(60))
    assert (record.priority, record.queue, record.created_at) == (
        before.priority, before.queue, before.created_at,
    )  # fmt: skip
    assert told(drive, run) == {
        "input": {"from": {"n": 1}, "to": {"n": 2}},
        "tags": {"from": ["a", "b"], "to": ["b", "c"]},
        "timeout": {"from": 5, "to": 30},
        "expires_at": {"from": None, "to": iso(drive, 50)},
        "deadline_at": {"from": iso(drive, 9), "to": iso(drive, 60)},
    }
    claimed = drive.take(run)
    assert value_of(claimed.input) == {"n": 2}
    assert claimed.options == Options(max_attempts=3, timeout=30.0)
    assert claimed.deadline_at == drive.later(60)
    assert claimed.extras is not None
    assert claimed.extras.tags == ("b", "c")
    assert violations(History.read(drive.tables)) == []


def test_what_is_not_named_stays(drive: Driver) -> None:
    run = drive.add(
        tags=("a",), options=Options(timeout=5.0), expires_in=50.0, deadline_in=60.0, key="k"
    )
    before = drive.get(run)

    after = drive.change(run, input=NEW)

    for name in ("tags", "options", "expires_at", "deadline_at", "key", "scheduled_for", "token"):
        assert getattr(after, name) == getattr(before, name), name
    assert told(drive, run) == {"input": {"from": {"n": 1}, "to": {"n": 2}}}


def test_none_takes_away(drive: Driver) -> None:
    run = drive.add(tags=("a",), options=Options(timeout=5.0), expires_in=50.0, deadline_in=60.0)

    record = drive.change(run, tags=(), timeout=None, expires_at=None, deadline_at=None)

    assert (record.tags, record.expires_at, record.deadline_at) == ((), None, None)
    assert record.options is None
    assert set(told(drive, run)) == {"tags", "timeout", "expires_at", "deadline_at"}
    drive.advance(1_000)
    swept = drive.sweep(expire=True)
    assert (swept.expired, swept.overrun) == (0, 0)
    drive.register()
    assert ids(drive.claim(1).claimed) == [run.id]


def test_it_keeps_its_place(drive: Driver) -> None:
    first, second = drive.add_many(2)
    drive.advance(5)

    drive.change(first, tags=("a",))

    (place,) = drive.rows("ready", id=first.id)
    assert place["ready_at"] == drive.later(-5)
    drive.register()
    assert ids(drive.claim(2).claimed) == ids([first, second])


@pytest.mark.parametrize("why", ["delay", "backoff", "snooze"])
def test_a_run_that_waits_for_its_time_goes_on_waiting(drive: Driver, why: str) -> None:
    if why == "delay":
        run = drive.add(delay=60.0)
    else:
        outcome = Outcome.RETRY if why == "backoff" else Outcome.SNOOZED
        claimed = drive.start()
        drive.finish(claimed, outcome, delay=60.0)
        run = claimed.ref
    before = drive.get(run)
    drive.advance(5)

    record = drive.change(run, input=NEW, deadline_in=90.0)

    assert record.status is Status.SCHEDULED
    for name in ("due_at", "waiting_for", "attempt", "failures", "token"):
        assert getattr(record, name) == getattr(before, name), name
    drive.advance(60)
    drive.sweep(dispatch=True)
    claimed = drive.take(run)
    assert (value_of(claimed.input), claimed.deadline_at) == ({"n": 2}, drive.later(30))
    assert violations(History.read(drive.tables)) == []


@pytest.mark.parametrize("status", [Status.QUEUED, Status.SCHEDULED])
@pytest.mark.parametrize("name", ["expires", "deadline"])
def test_a_new_time_ends_it_when_it_has_come(drive: Driver, status: Status, name: str) -> None:
    run = drive.bring(status, **{f"{name}_in": 100.0})
    drive.change(run, **{f"{name}_at": drive.later(200)})

    drive.advance(150)
    swept = drive.sweep(expire=True)
    assert (swept.expired, swept.overrun) == (0, 0)
    drive.advance(50)
    drive.sweep(expire=True)

    failure = Failure.EXPIRED if name == "expires" else Failure.DEADLINE
    assert drive.get(run).failure is failure
    assert violations(History.read(drive.tables)) == []


def test_an_expiry_of_a_run_that_is_to_be_tried_again_counts_for_its_next_start(
    drive: Driver,
) -> None:
    one, two = drive.start(expires_in=10.0), drive.start(expires_in=10.0)
    for claimed in (one, two):
        drive.finish(claimed, Outcome.RETRY, delay=60.0)
    drive.change(one.ref, expires_in=100.0)
    drive.advance(150)

    assert drive.sweep(expire=True).expired == 1
    assert drive.get(one.ref).failure is Failure.EXPIRED
    assert drive.get(two.ref).status is Status.SCHEDULED


def test_a_run_is_found_by_its_new_tags(drive: Driver) -> None:
    run, other = drive.add(tags=("a", "b")), drive.add(tags=("a",))

    drive.change(run, tags=("b", "c"))

    assert drive.list(tag="a") == [other.id]
    assert drive.list(tag="b") == drive.list(tag="c") == [run.id]
    drive.change(run, tags=())
    assert drive.list(tag="b") == drive.list(tag="c") == []


@pytest.mark.parametrize("verb", ["change", "retry"])
@pytest.mark.parametrize("unique", [None, "live"])
def test_its_key_stands_for_the_input_that_it_was_enqueued_with(
    drive: Driver, verb: str, unique: Any
) -> None:
    fields: dict[str, Any] = {"key": "k", "options": Options(unique=unique)}
    if verb == "change":
        run = drive.add(**fields)
        drive.change(run, input=NEW)
    else:
        run = drive.ended(Outcome.FAILED, **fields)
        drive.retry(run, input=NEW)

    (again,) = drive.enqueue(drive.new(**fields))

    assert (again.id, again.created) == (run.id, False)
    with pytest.raises(KeyConflict):
        drive.enqueue(drive.new(**fields, input=NEW))


def test_an_event_repeats_what_is_small_and_measures_the_rest(drive: Driver) -> None:
    run = drive.add()
    large = raw({"text": "x" * 3_000})

    drive.change(run, input=large)

    assert told(drive, run) == {"input": {"from_bytes": 7, "to_bytes": 3_011}}


def test_what_is_the_same_is_not_told(drive: Driver) -> None:
    run = drive.add(tags=("a",), options=Options(timeout=5.0), expires_at=drive.later(50))
    drive.change(
        run, input=raw({"n": 1}), tags=("a",), timeout=5, expires_at=drive.later(50),
        deadline_at=None,
    )  # fmt: skip
    assert told(drive, run) == {}


def test_repeating_it_changes_nothing_but_the_history(drive: Driver) -> None:
    run = drive.add()
    first, again = (drive.change(run, input=NEW, tags=("a",)) for _ in range(2))
    assert (again.input, again.tags, again.status) == (first.input, ("a",), Status.QUEUED)
    assert drive.trail(run)[1:] == [EventType.CHANGED] * 2


@pytest.mark.parametrize(
    "status", [Status.RUNNING, Status.SUCCEEDED, Status.FAILED, Status.CANCELED]
)
def test_what_does_not_wait_is_refused(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    before = drive.get(run)
    with pytest.raises(IllegalTransition) as caught:
        drive.change(run, input=NEW)
    assert (caught.value.status, caught.value.verb) == (status, "change")
    assert drive.get(run) == before


@pytest.mark.parametrize("name", ["expires", "deadline"])
def test_a_time_before_it_can_start_is_refused_and_nothing_is_changed(
    drive: Driver, name: str
) -> None:
    scheduled, queued = drive.add(delay=60.0, tags=("a",)), drive.add(tags=("a",))
    drive.advance(1)
    for run, over, start in ((scheduled, 59.0, 59.0), (queued, 0.0, 0.0)):
        before, trail = drive.get(run), drive.trail(run)
        with pytest.raises(RunExpires) as caught:
            drive.change(run, input=NEW, tags=("b",), **{f"{name}_in": over})
        assert caught.value.args == (run.id, iso(drive, over), iso(drive, start))
        assert (drive.get(run), drive.trail(run)) == (before, trail)
    assert drive.list(tag="b") == []
    assert violations(History.read(drive.tables)) == []


def test_an_unknown_run_is_told(drive: Driver) -> None:
    for name in (ABSENT, "nobody"):
        with pytest.raises(RunNotFound, match=name):
            drive.change(ref(name), tags=("a",))
    run = drive.add(tenant="acme")
    with pytest.raises(RunNotFound):
        drive.change(ref(run.id), tags=("a",))


def test_lengths_that_are_none_are_refused(drive: Driver) -> None:
    run = drive.add()
    for wrong in ({"expires_in": -1.0}, {"deadline_in": 1e12},
                  {"expires_in": 1.0, "expires_at": None}):  # fmt: skip
        with pytest.raises(BadArguments, match="_in"):
            drive.change(run, **wrong)


# -- another input for a run that is retried -----------------------------------------


@pytest.mark.both_faces
def test_a_run_is_retried_with_another_input(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED)

    record = drive.retry(run, 7, NEW)

    assert (record.status, value_of(record.input)) == (Status.QUEUED, {"n": 2})
    last = drive.events(run)[-1]
    assert (last.type, last.data) == (
        EventType.RETRIED, {"max_attempts": 7, "input": {"from": {"n": 1}, "to": {"n": 2}}},
    )  # fmt: skip
    assert value_of(drive.take(run).input) == {"n": 2}
    assert violations(History.read(drive.tables)) == []


@pytest.mark.parametrize("input", [None, raw({"n": 1})])
def test_a_retry_with_the_same_input_says_nothing_of_it(drive: Driver, input: Any) -> None:
    run = drive.ended(Outcome.FAILED)
    assert value_of(drive.retry(run, None, input).input) == {"n": 1}
    assert drive.events(run)[-1].data is None


def test_a_retry_that_is_refused_keeps_the_input(drive: Driver) -> None:
    run = drive.ended(Outcome.SUCCEEDED)
    with pytest.raises(IllegalTransition):
        drive.retry(run, None, NEW)
    assert value_of(drive.get(run).input) == {"n": 1}


# -- the link to the run that it was made from -----------------------------------------


def test_a_run_knows_the_run_that_it_was_made_from(drive: Driver) -> None:
    old = drive.ended(Outcome.FAILED)
    run = drive.add(options=Options(again_of=old.id))
    assert drive.get(run).options == Options(again_of=old.id)
    drive.change(run, timeout=5.0)
    drive.change(run, timeout=None)
    assert drive.take(run).options == Options(again_of=old.id)


# -- a claim at the same time -----------------------------------------


@pytest.fixture
def other(place: Place) -> Any:
    """Somebody with an open transaction."""
    assert isinstance(place, PostgresPlace)
    with psycopg.connect(place.url) as conn:
        yield conn


@requires("server")
def test_a_claim_passes_by_a_run_that_is_being_changed(
    open_real: Opened, other: psycopg.Connection[Any]
) -> None:
    drive = open_real()
    run = drive.add()
    other.execute("select windlass.change('default', %s, %s)", (run.id, '{"input": {"n": 2}}'))
    drive.register()

    assert drive.claim(1).claimed == ()
    assert drive.claim(1, ids=(run,)).claimed == ()
    other.commit()
    (claimed,) = drive.claim(1).claimed

    assert value_of(claimed.input) == {"n": 2}
    assert violations(History.read(drive.tables)) == []


@requires("server")
def test_a_change_waits_for_a_claim_and_is_refused(
    open_real: Opened, other: psycopg.Connection[Any]
) -> None:
    drive, second = open_real(), open_real()
    run = drive.add()
    drive.register()
    (row,) = other.execute(
        "select input from windlass.claim('worker-1', 1, 1, array[%s])", (JOB,)
    ).fetchall()
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(second.change, run, input=NEW)
        _until_somebody_waits(other)
        other.commit()
        with pytest.raises(IllegalTransition, match="running"):
            changing.result()

    assert (row[0], value_of(drive.get(run).input)) == ({"n": 1}, {"n": 1})
    assert violations(History.read(drive.tables)) == []


def _until_somebody_waits(other: psycopg.Connection[Any]) -> None:
    """Until a transaction waits for a lock that this connection holds."""
    asked = (
        "select count(*) from pg_locks l where not l.granted and %s = any (pg_blocking_pids(l.pid))"
    )
    for _ in range(10_000):
        (found,) = other.execute(asked, (other.info.backend_pid,)).fetchall()
        if found[0]:
            return
    raise AssertionError("nobody waits")


def test_a_run_that_was_changed_starts_with_that_whoever_comes_first(open_real: Opened) -> None:
    """Runs are claimed and changed at once: a change is refused, or it is what starts."""
    one, two = open_real(), open_real()
    runs = one.add_many(40)
    one.register()
    start = threading.Barrier(2)
    changed, refused = set[str](), set[str]()

    def change_all() -> None:
        start.wait()
        for run in runs:
            try:
                two.change(run, input=NEW)
            except IllegalTransition:
                refused.add(run.id)
            else:
                changed.add(run.id)

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change_all)
        start.wait()
        claimed: list[Claimed] = []
        while len(claimed) < len(runs):
            # From the newest on: the two meet in the middle.
            left = [run for run in reversed(runs) if run.id not in {each.id for each in claimed}]
            claimed += one.claim(1, ids=tuple(left[:1])).claimed
        changing.result()

    started = {each.id: value_of(each.input)["n"] for each in claimed}
    assert changed | refused == set(ids(runs))
    assert started == {run.id: 2 if run.id in changed else 1 for run in runs}
    assert violations(History.read(one.tables)) == []


# -- plain SQL -----------------------------------------


WRONG = {
    "[]": "changes",
    '{"queue": "other"}': "queue",
    '{"tags": "a"}': "tags",
    '{"tags": [1]}': "tags",
    '{"timeout": 0}': "timeout",
    '{"timeout": "5s"}': "timeout",
    '{"expires_at": "tomorrow"}': "expires_at",
    '{"deadline_in": -1}': "deadline_in",
    '{"deadline_in": 1, "deadline_at": null}': "deadline_in",
    '{"input": null}': "input",
}


@requires("server")
@pytest.mark.parametrize("changes", WRONG)
def test_plain_sql_is_checked_as_python_is(
    open_real: Opened, other: psycopg.Connection[Any], changes: str
) -> None:
    drive = open_real()
    run = drive.add()
    with pytest.raises(psycopg.Error) as caught:
        other.execute("select windlass.change('default', %s, %s)", (run.id, changes))
    assert caught.value.sqlstate == "WL005"
    assert f'"{WRONG[changes]}"' in str(caught.value.diag.message_detail)


@requires("server")
def test_an_input_that_cannot_be_stored_is_refused(drive: Driver) -> None:
    run, failed = drive.add(), drive.ended(Outcome.FAILED)
    large = raw("x" * 1_100_000)
    with pytest.raises(PayloadTooLarge):
        drive.change(run, input=large)
    with pytest.raises(PayloadTooLarge):
        drive.retry(failed, None, large)
    assert drive.get(failed).status is Status.FAILED
