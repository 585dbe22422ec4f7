"""Failure handlers: each death of a run starts one run of them, in the same transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import (
    JOB,
    QUEUE,
    Driver,
    make_error,
    make_finish,
    raw,
    ref,
)
from tests.conformance.plain_sql import Client
from windlass.domain.event import EventType
from windlass.domain.failed import FailedRun, FailureHandler, handling_id
from windlass.domain.outcome import Outcome
from windlass.domain.run import Blocked, JobRow, NewRun, RunRecord, RunRef
from windlass.domain.states import Failure, Status

HANDLER = "greet.on_failure"
BY = FailureHandler(job=HANDLER, argument="failed")


def define(drive: Driver, handler: FailureHandler | None = BY, *more: JobRow) -> None:
    """Store the job with a failure handler, as a worker does when it starts."""
    drive.call(drive.ops.sync_jobs([JobRow(name=JOB, queue=QUEUE, on_failure=handler), *more]))


def handler_runs(drive: Driver, job: str = HANDLER) -> list[RunRecord]:
    """The runs of the handler, oldest first."""
    found = [drive.get(ref(row["id"], row["tenant"])) for row in drive.rows("runs", job=job)]
    return sorted(found, key=lambda record: record.id)


def told(record: RunRecord, argument: str = "failed") -> FailedRun:
    """What a handler's run is told."""
    found = msgspec.json.decode(record.input, type=dict[str, FailedRun])
    assert list(found) == [argument]
    return found[argument]


def sound(drive: Driver) -> bool:
    """Whether the history checker has nothing to say."""
    assert violations(History.read(drive.tables)) == []
    return True


# -- every way to die -----------------------------------------------------------------------------


def _failed(drive: Driver, **fields: Any) -> RunRef:
    held = drive.start()
    drive.finish(held, Outcome.FAILED, **fields)
    return held.ref


def _reaped(drive: Driver) -> RunRef:
    held = drive.start()
    drive.kill()
    drive.sweep(reap=True, max_crashes=1)
    return held.ref


def _late(drive: Driver, **fields: Any) -> RunRef:
    run = drive.add(**fields)
    drive.advance(61)
    drive.sweep(expire=True)
    return run


def _overrun_under_a_lease(drive: Driver) -> RunRef:
    held = drive.start(deadline_in=60.0)
    drive.advance(61)
    drive.register()
    drive.advance(60)
    drive.sweep(expire=True)
    return held.ref


def _blamed(drive: Driver) -> RunRef:
    held = drive.start()
    end = make_finish(held, Outcome.CRASHED, failure=Failure.CRASHED)
    drive.renew([], settled=1_000, blocked=Blocked(seconds=40.0, blamed=(end,)))
    return held.ref


def _crashed_child(drive: Driver) -> RunRef:
    held = drive.start()
    drive.finish(held, Outcome.CRASHED, failure=Failure.CRASHED)
    return held.ref


def _ended_beside_a_claim(drive: Driver) -> RunRef:
    held = drive.start()
    drive.claim(finishes=[make_finish(held, Outcome.FAILED)])
    return held.ref


DEATHS: dict[str, tuple[Failure, Callable[[Driver], RunRef]]] = {
    "fatal": (Failure.FATAL, _failed),
    "exhausted": (Failure.EXHAUSTED, lambda d: _failed(d, failure=Failure.EXHAUSTED)),
    "timeout": (Failure.TIMEOUT, lambda d: _failed(d, failure=Failure.TIMEOUT, timed_out=True)),
    "deadline, by its worker": (Failure.DEADLINE, lambda d: _failed(d, failure=Failure.DEADLINE)),
    "in one call with a claim": (Failure.FATAL, _ended_beside_a_claim),
    "child process died": (Failure.CRASHED, _crashed_child),
    "blocked the loop": (Failure.CRASHED, _blamed),
    "worker died": (Failure.CRASHED, _reaped),
    "expired in its queue": (Failure.EXPIRED, lambda d: _late(d, expires_in=60.0)),
    "expired before it was due": (Failure.EXPIRED, lambda d: _late(d, expires_in=60.0, delay=90.0)),
    "deadline in its queue": (Failure.DEADLINE, lambda d: _late(d, deadline_in=60.0)),
    "deadline before it was due": (
        Failure.DEADLINE, lambda d: _late(d, deadline_in=60.0, delay=90.0)
    ),
    "deadline under a lease": (Failure.DEADLINE, _overrun_under_a_lease),
}  # fmt: skip


@pytest.mark.every_server
@pytest.mark.parametrize("way", DEATHS)
def test_each_way_to_fail_for_good_starts_the_handler_once(drive: Driver, way: str) -> None:
    define(drive)
    failure, die = DEATHS[way]

    run = die(drive)

    dead = drive.get(run)
    assert (dead.status, dead.failure) == (Status.FAILED, failure)
    (handler,) = handler_runs(drive)
    assert (handler.status, handler.enqueued_by) == (Status.QUEUED, run.id)
    last = drive.events(run)[-1]
    assert (last.type, last.data) == (
        EventType.FAILED, {"failure": failure.value, "handled_by": handler.id},
    )  # fmt: skip
    assert (told(handler).id, told(handler).failure) == (run.id, failure)
    assert drive.trail(ref(handler.id)) == [EventType.ENQUEUED]
    assert sound(drive)


@pytest.mark.parametrize("how", ["a retry", "a snooze", "a success", "a cancel by its handler",
                                 "a release", "a reap", "a crash under a cancel",
                                 "a cancel while it waits"])  # fmt: skip
def test_nothing_else_starts_it(drive: Driver, how: str) -> None:
    define(drive)
    held = drive.start()
    match how:
        case "a retry":
            drive.finish(held, Outcome.RETRY)
        case "a snooze":
            drive.finish(held, Outcome.SNOOZED)
        case "a success":
            drive.finish(held, Outcome.SUCCEEDED)
        case "a cancel by its handler":
            drive.finish(held, Outcome.CANCELED)
        case "a release":
            drive.finish(held, Outcome.RELEASED)
        case "a reap":
            drive.kill()
            drive.sweep(reap=True, max_crashes=2)
        case "a crash under a cancel":
            drive.cancel(held.ref)
            drive.finish(held, Outcome.CRASHED, failure=Failure.CRASHED)
        case _:
            drive.finish(held, Outcome.RETRY)
            drive.cancel(held.ref)

    assert handler_runs(drive) == []
    assert sound(drive)


def test_without_a_handler_a_death_is_only_recorded(drive: Driver) -> None:
    define(drive, None)
    known = drive.ended(Outcome.FAILED)
    unknown = drive.ended(Outcome.FAILED, job="never-stored")

    for run in (known, unknown):
        assert drive.events(run)[-1].data == {"failure": "fatal"}
    assert len(drive.rows("runs")) == 2


def test_a_batch_of_deaths_starts_a_run_for_each(drive: Driver) -> None:
    define(drive, BY, JobRow(name="other", queue=QUEUE), JobRow(name="third", queue=QUEUE,
           on_failure=FailureHandler(job="alarm", argument="run")))  # fmt: skip
    jobs = [JOB, JOB, "other", "third"]
    held = [drive.start(job=job) for job in jobs]
    fine = drive.start()

    drive.finish_all(
        [make_finish(run, Outcome.FAILED) for run in held] + [make_finish(fine, Outcome.SUCCEEDED)]
    )

    assert sorted(run.enqueued_by or "" for run in handler_runs(drive)) == sorted(
        run.id for run in held[:2]
    )
    (alarm,) = handler_runs(drive, "alarm")
    assert told(alarm, "run").id == held[3].id
    assert len(drive.rows("runs")) == len(jobs) + 1 + 3
    assert sound(drive)


# -- what it is told, and where it goes -----------------------------------------------------------


def test_the_handler_is_told_the_run_as_it_was(drive: Driver) -> None:
    define(drive)
    document = {"text": 'say "hi" \\ ☃', "list": [1, 2.5, None, {"a": True}]}
    born = drive.now
    held = drive.start(
        input=raw(document), key="k-1", tags=("vip", "ü"), metadata=raw({"order": 7}), priority=4
    )
    drive.finish(held, Outcome.RETRY, delay=1.0)
    drive.advance(1)
    drive.sweep(dispatch=True)
    held = drive.take(held.ref)
    drive.advance(2)
    error = make_error("no money", "CardDeclined")

    drive.finish(held, Outcome.FAILED, error=error, failure=Failure.EXHAUSTED)

    (handler,) = handler_runs(drive)
    assert told(handler) == FailedRun(
        id=held.id,
        job=JOB,
        queue=QUEUE,
        failure=Failure.EXHAUSTED,
        input=document,
        error=error,
        attempts=2,
        failures=2,
        crashes=0,
        key="k-1",
        tags=("vip", "ü"),
        metadata={"order": 7},
        created_at=born,
        failed_at=born + timedelta(seconds=3),
    )
    assert (handler.queue, handler.priority) == (QUEUE, 4)
    assert (handler.key, handler.tags, handler.expires_at) == (None, (), None)
    assert handler.created_at == handler.scheduled_for == drive.now


def test_a_run_that_ends_without_an_error_tells_that_of_its_last_failure(drive: Driver) -> None:
    define(drive)
    held = drive.start(deadline_in=60.0)
    drive.finish(held, Outcome.RETRY, delay=100.0, error=make_error("the cause"))
    drive.advance(61)
    drive.sweep(expire=True)
    never = _late(drive, expires_in=1.0)

    tales = {told(run).id: told(run).error for run in handler_runs(drive)}

    assert tales == {held.id: make_error("the cause"), never.id: None}


def test_tenant_queue_priority_and_trace_are_those_of_the_dead_run(drive: Driver) -> None:
    rows = [JobRow(name=JOB, queue="elsewhere", tenant=name, on_failure=BY) for name in "ab"]
    drive.call(drive.ops.sync_jobs(rows))
    for tenant, trace in (("a", "ab" * 16), ("b", None)):
        run = drive.add(tenant=tenant, queue="special", priority=3, trace=trace)
        drive.reprioritize(run, priority=9)
        drive.finish(drive.take(run), Outcome.FAILED)
        (row,) = drive.rows("runs", job=HANDLER, tenant=tenant)
        handler = drive.get(ref(row["id"], tenant))
        assert (handler.queue, handler.priority) == ("special", 9)
        assert handler.trace == (trace or run.id.replace("-", ""))
    assert sound(drive)


def test_a_handler_may_name_a_queue_and_a_priority_of_its_own(drive: Driver) -> None:
    define(drive, FailureHandler(job=HANDLER, argument="failed", queue="alerts", priority=0))
    drive.ended(Outcome.FAILED, priority=5)

    (handler,) = handler_runs(drive)

    assert (handler.queue, handler.priority) == ("alerts", 0)
    (position,) = drive.rows("ready", id=handler.id)
    assert (position["queue"], position["rank"]) == ("alerts", 0)


def test_its_run_is_claimed_like_any_other(drive: Driver) -> None:
    define(drive)
    held = drive.start()

    reply = drive.claim(jobs=(HANDLER,), finishes=[make_finish(held, Outcome.FAILED)])

    (claimed,) = reply.claimed
    assert claimed.extras is not None
    assert (claimed.job, claimed.attempt, claimed.extras.enqueued_by) == (HANDLER, 1, held.id)
    drive.finish(claimed, Outcome.RETRY, delay=5.0)  # and is tried again like any other
    assert drive.get(claimed.ref).status is Status.SCHEDULED
    assert sound(drive)


def test_its_id_is_made_of_the_death(drive: Driver) -> None:
    define(drive)
    held = drive.start()
    run = held.ref
    drive.advance(1)  # ids are of milliseconds
    drive.finish(held, Outcome.FAILED)

    (handler,) = handler_runs(drive)

    micros = int(drive.now.timestamp()) * 1_000_000 + drive.now.microsecond
    seq = len(drive.events(run))
    assert (
        handler.id.replace("-", "")
        == handling_id(bytes.fromhex(run.id.replace("-", "")), seq, micros).hex()
    )
    assert handler.id > run.id  # it comes later in every listing


# -- again, and never without end -----------------------------------------------------------------


def test_a_second_death_starts_a_second_run(drive: Driver) -> None:
    define(drive)
    run = drive.ended(Outcome.FAILED)
    (first,) = handler_runs(drive)

    drive.retry(run)
    assert [run.id for run in handler_runs(drive)] == [first.id]
    drive.finish(drive.take(run), Outcome.FAILED, error=make_error("again"))

    again = [found for found in handler_runs(drive) if found.id != first.id]
    assert [found.enqueued_by for found in again] == [run.id]
    assert told(again[0]).error == make_error("again")
    assert told(first).error == make_error()  # what it is told does not change any more
    assert sound(drive)


def test_an_end_that_is_sent_twice_starts_it_once(drive: Driver) -> None:
    define(drive)
    held = drive.start()
    end = make_finish(held, Outcome.FAILED)

    drive.finish_all([end, end])
    assert drive.finish_all([end]).lost

    assert len(handler_runs(drive)) == 1


@pytest.mark.parametrize("next_job", [JOB, HANDLER])
def test_a_handler_that_dies_starts_nothing(drive: Driver, next_job: str) -> None:
    """Whatever its row says: two jobs may name each other, or one itself."""
    again = FailureHandler(job=next_job, argument="failed")
    define(drive, BY, JobRow(name=HANDLER, queue=QUEUE, on_failure=again))
    drive.ended(Outcome.FAILED)
    (handler,) = handler_runs(drive)

    drive.finish(drive.take(ref(handler.id)), Outcome.FAILED)
    drive.retry(ref(handler.id), max_attempts=3)
    drive.finish(drive.take(ref(handler.id)), Outcome.FAILED)

    assert drive.events(ref(handler.id))[-1].data == {"failure": "fatal"}
    assert len(drive.rows("runs")) == 2
    assert sound(drive)


def test_the_definition_at_the_time_of_the_death_counts(drive: Driver) -> None:
    define(drive, None)
    held = drive.start()
    define(drive)
    drive.finish(held, Outcome.FAILED)
    later = drive.start()
    define(drive, None)
    drive.finish(later, Outcome.FAILED)

    assert [run.enqueued_by for run in handler_runs(drive)] == [held.id]


def test_the_feed_tells_the_death_before_its_handler(drive: Driver) -> None:
    define(drive)
    run = drive.ended(Outcome.FAILED)
    (handler,) = handler_runs(drive)

    subjects = [(event.subject, event.type) for event in drive.feed(4)]

    died, made = (run.id, EventType.FAILED), (handler.id, EventType.ENQUEUED)
    assert subjects.index(died) < subjects.index(made)


def test_a_transaction_that_is_undone_leaves_neither(drive: Driver) -> None:
    """The id is taken already: the handler's run cannot be made, so the run has not failed."""
    define(drive)
    held = drive.start()
    seq = len(drive.events(held.ref)) + 1
    micros = int(drive.now.timestamp()) * 1_000_000 + drive.now.microsecond
    taken = handling_id(bytes.fromhex(held.id.replace("-", "")), seq, micros).hex()
    in_the_way = f"{taken[:8]}-{taken[8:12]}-{taken[12:16]}-{taken[16:20]}-{taken[20:]}"
    drive.enqueue(NewRun(id=in_the_way, job="other", queue=QUEUE, input=raw({})))

    with pytest.raises(Exception, match=r".") as caught:
        drive.finish(held, Outcome.FAILED)

    assert not isinstance(caught.value, AssertionError)
    assert drive.get(held.ref).status is Status.RUNNING
    assert drive.positions(held.ref) == ["leases"]
    assert sound(drive)


# -- from SQL -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["fail", "finish"])
def test_a_worker_in_sql_starts_it_too(client: Client, way: str) -> None:
    client.all(
        """select windlass.sync_jobs('[{"name": "greet", "queue": "mail", "max_attempts": 1,
           "on_failure": {"job": "alarm", "argument": "failed", "priority": 2}}]')"""
    )
    run = str(client.value("select id from windlass.enqueue('greet', '{\"n\": 1}')"))
    client.all("select windlass.register('psql', 30)")
    (claimed,) = client.all("select * from windlass.claim('psql', 1, 1, array['greet'])")
    error = '{"type": "Boom", "message": "no"}'

    if way == "fail":
        client.all("select windlass.fail('default', %s, %s, %s)", run, claimed["token"], error)
    else:
        client.all(
            """select windlass.finish(json_build_array(json_build_object(
                 'tenant', 'default', 'id', %s::uuid, 'token', %s::bigint, 'outcome', 'failed',
                 'failure', 'fatal', 'error', %s::json)))""",
            run, claimed["token"], error,
        )  # fmt: skip

    assert client.status(run) == "failed"
    (alarm,) = client.all("select * from windlass.claim('psql', 2, 1, array['alarm'])")
    assert alarm["input"]["failed"]["error"]["type"] == "Boom"
    assert alarm["input"]["failed"]["input"] == {"n": 1}
    found = client.one("select * from windlass.get_runs('default', array[%s::uuid])", alarm["id"])
    assert (str(found["enqueued_by"]), found["priority"], found["queue"]) == (run, 2, "mail")


@pytest.mark.parametrize(
    "on_failure",
    ["[]", '"alarm"', "{}", '{"job": "alarm"}', '{"job": "a b", "argument": "x"}',
     '{"job": "alarm", "argument": 1}', '{"job": "alarm", "argument": "x", "queue": "a b"}',
     '{"job": "alarm", "argument": "x", "priority": 1.5}'],
)  # fmt: skip
def test_a_definition_that_could_not_be_followed_is_refused(
    client: Client, on_failure: str
) -> None:
    jobs = f'[{{"name": "odd", "queue": "mail", "on_failure": {on_failure}}}]'

    state, _ = client.refused("select windlass.sync_jobs(%s)", jobs)

    assert state == "WL005"


def test_callers_cannot_make_a_run_that_nobody_handles(client: Client) -> None:
    state, detail = client.refused(
        "select windlass.enqueue('greet', '{}', p_options => '{\"on_failure\": true}')"
    )

    assert (state, detail[0]) == ("WL005", "greet")
