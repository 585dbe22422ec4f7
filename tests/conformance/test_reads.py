"""Reads: jobs, runs, pages of runs, events and counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from tests.conformance.kit import ABSENT, JOB, LEASE, Driver, ids, make_error, raw, reachable, ref
from tests.conformance.places import Place, PostgresPlace
from windlass.domain.listing import RunFilter
from windlass.domain.outcome import Outcome
from windlass.domain.run import Finish, JobRecord, JobRow, RunDefaults, RunRef
from windlass.domain.states import Failure, Status
from windlass.errors import BadArguments
from windlass.sources import Ids, ManualClock
from windlass.store.sqlite import runs

# -- jobs ------------------------------------------------------------------------------------


def _jobs(drive: Driver, tenant: str = "default") -> list[JobRow]:
    return [_definition(job) for job in drive.call(drive.ops.list_jobs(tenant))]


def _job(drive: Driver, name: str) -> JobRow | None:
    found = drive.call(drive.ops.get_job("default", name))
    return None if found is None else _definition(found)


def _definition(job: JobRecord) -> JobRow:
    return JobRow(**{name: getattr(job, name) for name in JobRow.__struct_fields__})


def test_a_job_comes_back_as_it_was_defined(drive: Driver) -> None:
    job = JobRow(
        name='send-"mail"',
        queue="mail",
        priority=-2,
        max_attempts=9,
        timeout=2.5,
        retry={"kind": "fixed", "base": 5.0},
        parameters=({"name": "user", "required": True}, {"name": "ü"}),
        default_input=raw({"a": [1, None]}),
        defaults=RunDefaults(
            tags=("a", "ü"), expires=1.5, deadline=2.0, unique="live", key_ttl=60.0
        ),
        version="v1",
    )

    drive.call(drive.ops.sync_jobs([job]))

    assert _job(drive, job.name) == job
    assert _jobs(drive) == [job]
    changed = msgspec.structs.replace(job, defaults=None)
    drive.call(drive.ops.sync_jobs([changed]))
    assert _job(drive, job.name) == changed


@pytest.mark.parametrize(
    "retry", [{"kind": "often"}, {"base": "1s"}, {"base": 2, "cap": 1}, {"jitter": 2}, {"x": 1}]
)
def test_a_policy_that_nobody_could_follow_is_refused(drive: Driver, retry: dict[str, Any]) -> None:
    with pytest.raises(BadArguments) as caught:
        drive.call(drive.ops.sync_jobs([JobRow(name="odd", queue="main", retry=retry)]))

    assert (caught.value.job, caught.value.parameter) == ("odd", "retry")
    assert _jobs(drive) == []


def test_a_job_that_says_little_has_defaults(drive: Driver) -> None:
    job = JobRow(name="plain", queue="main")

    drive.call(drive.ops.sync_jobs([job]))

    assert _job(drive, "plain") == job


def test_jobs_are_listed_by_name_within_their_tenant(drive: Driver) -> None:
    rows = [JobRow(name=name, queue="q") for name in ("b", "c", "a")]
    foreign = JobRow(name="a", queue="theirs", tenant="acme")

    drive.call(drive.ops.sync_jobs([*rows, foreign]))

    assert [job.name for job in _jobs(drive)] == ["a", "b", "c"]
    assert _jobs(drive, "acme") == [foreign]
    assert _jobs(drive, "nobody") == []


def test_an_unknown_job_is_none(drive: Driver) -> None:
    drive.call(drive.ops.sync_jobs([JobRow(name="a", queue="q", tenant="acme")]))

    assert _job(drive, "a") is None


def test_a_changed_job_is_rewritten_and_an_equal_one_is_not(drive: Driver) -> None:
    same, changed = JobRow(name="same", queue="q"), JobRow(name="changed", queue="q")
    drive.call(drive.ops.sync_jobs([same, changed]))
    first = drive.now
    drive.advance(10)

    drive.call(drive.ops.sync_jobs([same, JobRow(name="changed", queue="q", max_attempts=2)]))

    found = drive.call(drive.ops.list_jobs("default"))
    assert [(job.name, job.created_at, job.updated_at) for job in found] == [
        ("changed", first, drive.now),
        ("same", first, first),
    ]
    assert drive.call(drive.ops.get_job("default", "changed")) == found[0]
    assert [job.max_attempts for job in _jobs(drive)] == [2, 5]


def test_no_jobs_are_no_trouble(drive: Driver) -> None:
    drive.call(drive.ops.sync_jobs([]))

    assert _jobs(drive) == []


# -- get -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [ABSENT, "not-an-id", "", "'; drop table runs; --"])
def test_what_is_not_there_is_none(drive: Driver, name: str) -> None:
    drive.add()

    assert drive.call(drive.ops.get_run(ref(name))) is None
    assert drive.call(drive.ops.get_runs("default", [name])) == []
    assert drive.call(drive.ops.list_events(ref(name), 0, 10)) == []


def test_another_tenants_run_is_not_there(drive: Driver) -> None:
    run = drive.add(tenant="acme")

    assert drive.call(drive.ops.get_run(ref(run.id))) is None
    assert drive.call(drive.ops.get_runs("default", [run.id])) == []
    assert drive.call(drive.ops.list_events(ref(run.id), 0, 10)) == []
    assert drive.list() == []


def test_several_runs_are_read_at_once(drive: Driver) -> None:
    runs = [drive.bring(status) for status in reachable()]

    records = drive.call(drive.ops.get_runs("default", [*ids(runs), ABSENT]))

    assert {record.id: record.status for record in records} == dict(
        zip(ids(runs), reachable(), strict=True)
    )
    assert all(record == drive.get(RunRef("default", record.id)) for record in records)


def test_the_last_change_is_told(drive: Driver) -> None:
    run = drive.add()
    seen = []
    for step in (
        lambda: drive.take(run),
        lambda: drive.cancel(run),
        lambda: drive.call(drive.ops.retire("worker-1")),
        lambda: drive.retry(run),
    ):
        drive.advance(1)
        step()
        seen.append(drive.get(run).updated_at == drive.now)

    assert seen == [True] * 4


def test_a_run_that_waits_again_tells_of_its_last_attempt(drive: Driver) -> None:
    held = drive.start()
    started = drive.now
    drive.advance(5)
    drive.finish(held, Outcome.RETRY)

    record = drive.get(held.ref)

    assert (record.started_at, record.worker) == (started, "worker-1")


def test_a_run_is_read_with_its_latest_hundred_attempts(steer: Driver) -> None:
    """One that snoozes every minute has ten thousand after a week."""
    run = steer.add()
    for _ in range(103):
        steer.finish(steer.take(run), Outcome.RELEASED)

    record = steer.get(run)

    assert record.attempt == 103
    assert [attempt.attempt for attempt in record.attempts] == list(range(4, 104))


# -- list ------------------------------------------------------------------------------------


def test_the_newest_come_first(drive: Driver) -> None:
    runs = drive.add_many(5)

    assert drive.list() == list(reversed(ids(runs)))


def test_pages_follow_each_other(drive: Driver) -> None:
    runs = list(reversed(ids(drive.add_many(7))))

    first = drive.list(limit=3)
    second = drive.list(limit=3, before=first[-1])
    third = drive.list(limit=3, before=second[-1])

    assert [first, second, third] == [runs[:3], runs[3:6], runs[6:]]
    assert drive.list(limit=3, before=third[-1]) == []


@pytest.mark.parametrize("status", [None, *reachable()])
def test_pages_stay_in_place_while_runs_are_added(steer: Driver, status: Status | None) -> None:
    def add() -> str:
        return steer.bring(status or Status.QUEUED).id

    old = [add() for _ in range(4)]
    first = steer.list(status=status, limit=2)
    add()

    second = steer.list(status=status, limit=10, before=first[-1])

    assert [*first, *second] == list(reversed(old))


def test_each_status_lists_its_own(steer: Driver) -> None:
    runs = {status: [steer.bring(status).id for _ in range(2)] for status in reachable()}

    for status, expected in runs.items():
        assert steer.list(status=status) == list(reversed(expected))
        records = steer.call(steer.ops.list_runs(RunFilter(status=status)))
        assert {record.status for record in records} == {status}
    assert len(steer.list()) == 2 * len(reachable())


@pytest.mark.parametrize("status", [None, *reachable()])
def test_lists_are_narrowed_by_job_queue_and_tag(steer: Driver, status: Status | None) -> None:
    reached = status or Status.SUCCEEDED
    fields = [
        {"job": "a", "queue": "x", "tags": ("red",)},
        {"job": "a", "queue": "y", "tags": ("red", "blue")},
        {"job": "b", "queue": "x", "tags": ()},
        {"job": "b", "queue": "y", "tags": ("blue",)},
    ]
    made = [(steer.bring(reached, **each).id, each) for each in fields]

    def expected(**wanted: Any) -> list[str]:
        return [
            ident
            for ident, each in reversed(made)
            if all(
                value in each["tags"] if name == "tag" else each[name] == value
                for name, value in wanted.items()
            )
        ]

    for wanted in (
        {"job": "a"},
        {"queue": "x"},
        {"tag": "red"},
        {"job": "a", "queue": "y"},
        {"job": "b", "tag": "blue"},
        {"queue": "y", "tag": "red"},
        {"job": "a", "queue": "x", "tag": "red"},
        {"job": "none"},
        {"tag": "none"},
    ):
        assert steer.list(status=status, **wanted) == expected(**wanted), wanted
        assert steer.list(status=status, limit=1, **wanted) == expected(**wanted)[:1]


@pytest.mark.parametrize("tag", [None, "t"])
def test_lists_of_failures_are_narrowed_by_kind(steer: Driver, tag: str | None) -> None:
    kinds = [Failure.EXHAUSTED, Failure.FATAL, Failure.TIMEOUT]
    runs = {}
    for kind in kinds:
        held = steer.start(tags=("t",))
        steer.finish(held, Outcome.FAILED, failure=kind)
        runs[kind] = held.id
    canceled = steer.ended(Outcome.CANCELED, tags=("t",))
    steer.ended(Outcome.SUCCEEDED, tags=("t",))

    for kind in kinds:
        assert steer.list(failure=kind, tag=tag) == [runs[kind]]
        assert steer.list(failure=kind, status=Status.FAILED, tag=tag) == [runs[kind]]
    assert steer.list(failure=Failure.CRASHED, tag=tag) == []
    assert steer.list(failure=Failure.FATAL, status=Status.SUCCEEDED, tag=tag) == []
    assert steer.list(failure=Failure.FATAL, status=Status.RUNNING, tag=tag) == []
    assert steer.list(status=Status.CANCELED, tag=tag) == [canceled.id]


@pytest.mark.parametrize("tag", [None, "t"])
def test_dead_letters_are_failed_and_neither_retried_nor_discarded(
    steer: Driver, tag: str | None
) -> None:
    dead, discarded, retried = (steer.ended(Outcome.FAILED, tags=("t",)) for _ in range(3))
    steer.ended(Outcome.CANCELED, tags=("t",))
    steer.call(steer.ops.discard("default", [discarded.id]))
    steer.retry(retried)

    assert steer.list(dead=True, tag=tag) == [dead.id]
    assert steer.list(dead=True, status=Status.FAILED, tag=tag) == [dead.id]
    assert steer.list(dead=True, failure=Failure.FATAL, tag=tag) == [dead.id]
    assert steer.list(dead=True, failure=Failure.TIMEOUT, tag=tag) == []
    assert steer.list(dead=True, status=Status.CANCELED, tag=tag) == []
    assert steer.list(dead=True, job="other", tag=tag) == []


@pytest.mark.parametrize("tag", [None, "t"])
@pytest.mark.parametrize("status", [None, *reachable()])
def test_lists_are_narrowed_by_when_a_run_was_created(
    steer: Driver, status: Status | None, tag: str | None
) -> None:
    runs = []
    for _ in range(3):
        runs.append(steer.bring(status or Status.QUEUED, tags=("t",)))
        steer.advance(10)
    start = steer.now - timedelta(seconds=30)
    later = [start + timedelta(seconds=seconds) for seconds in (0, 10, 20, 30)]

    def listed(**bounds: Any) -> list[str]:
        return list(steer.list(status=status, tag=tag, **bounds))

    assert listed(created_from=later[1]) == [runs[2].id, runs[1].id]
    assert listed(created_to=later[1]) == [runs[0].id], "the end is not included"
    assert listed(created_from=later[1], created_to=later[2]) == [runs[1].id]
    assert listed(created_from=later[3]) == []


def test_the_stores_clock_decides_when_a_run_was_created(steer: Driver) -> None:
    # Ids carry the clock of whoever made them, which may be hours off.
    hour = timedelta(hours=1)
    slow, fast = (Ids(ManualClock(steer.now + skew)).new_id() for skew in (-5 * hour, 5 * hour))
    steer.enqueue(steer.new(id=slow), steer.new(id=fast))

    assert steer.list(created_from=steer.now, created_to=steer.now + hour) == [fast, slow]
    assert steer.list(created_from=steer.now + hour) == []


def test_a_page_has_at_most_a_thousand(steer: Driver) -> None:
    steer.add_many(1_001)

    assert len(steer.list(limit=5_000)) == 1_000
    assert len(steer.list()) == 50


def test_a_cursor_that_is_no_id_finds_nothing(drive: Driver) -> None:
    drive.add()

    assert drive.list(before="not-an-id") == []


# -- events ----------------------------------------------------------------------------------


def test_events_are_read_in_pieces(drive: Driver) -> None:
    held = drive.start()
    drive.finish(held, Outcome.RETRY, error=make_error())

    def seqs(after: int, limit: int) -> list[int]:
        return [e.seq for e in drive.call(drive.ops.list_events(held.ref, after, limit))]

    assert seqs(0, 2) == [1, 2]
    assert seqs(2, 2) == [3]
    assert seqs(3, 2) == []
    assert seqs(0, 0) == []


def test_events_are_those_of_one_run(drive: Driver) -> None:
    one, two = drive.start(), drive.start()
    drive.finish(one, Outcome.SUCCEEDED)

    assert len(drive.events(one.ref)) == 3
    assert len(drive.events(two.ref)) == 2


# -- backlog ---------------------------------------------------------------------------------


def test_the_backlog_counts_what_is_left(drive: Driver) -> None:
    empty = drive.call(drive.ops.backlog(None, None))
    assert (empty.ready, empty.running, empty.retrying, empty.scheduled) == (0, 0, 0, 0)
    assert empty.oldest_ready_at is None
    oldest = drive.now
    drive.add()
    drive.add(tenant="acme")
    drive.advance(5)
    drive.add()
    drive.start()
    drive.add(delay=60.0)
    for outcome in (Outcome.RETRY, Outcome.SNOOZED, Outcome.SUCCEEDED, Outcome.FAILED):
        drive.finish(drive.start(), outcome)

    backlog = drive.call(drive.ops.backlog(None, None))

    assert (backlog.ready, backlog.running) == (3, 1)
    assert (backlog.retrying, backlog.scheduled) == (1, 2)
    assert backlog.oldest_ready_at == oldest


def test_what_is_due_counts_as_ready_before_it_is_dispatched(drive: Driver) -> None:
    drive.add(delay=60.0)
    drive.add(delay=61.0)
    drive.advance(60)

    backlog = drive.call(drive.ops.backlog(None, None))

    assert (backlog.ready, backlog.scheduled) == (1, 1)


def test_the_backlog_is_narrowed_by_queues_and_jobs(drive: Driver) -> None:
    for queue in ("x", "y"):
        for job in ("a", "b"):
            drive.add(queue=queue, job=job)
            drive.add(queue=queue, job=job, delay=60.0)
            drive.start(queue=queue, job=job)

    def counted(queues: list[str] | None, jobs: list[str] | None) -> tuple[int, int, int]:
        backlog = drive.call(drive.ops.backlog(queues, jobs))
        return backlog.ready, backlog.running, backlog.scheduled

    assert counted(None, None) == (4, 4, 4)
    assert counted(["x"], None) == (2, 2, 2)
    assert counted(None, ["a"]) == (2, 2, 2)
    assert counted(["x"], ["a"]) == (1, 1, 1)
    assert counted(["x", "y"], ["a", "b"]) == (4, 4, 4)
    assert counted(["z"], None) == counted([], None) == counted(None, []) == (0, 0, 0)


def test_leases_of_the_dead_are_in_the_backlog_until_they_are_reaped(drive: Driver) -> None:
    drive.start()
    drive.advance(LEASE)

    assert drive.call(drive.ops.backlog(None, None)).running == 1
    drive.sweep(reap=True)
    assert drive.call(drive.ops.backlog(None, None)).ready == 1


def test_no_count_of_the_backlog_is_hidden_by_another(
    drive: Driver, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stops at so many of its own, wherever they are in the table."""
    most = 2
    soon = [drive.start() for _ in range(3)]
    drive.add_many(3, delay=3600.0)
    drive.add(delay=30.0)
    for claimed in soon:
        drive.finish(claimed, Outcome.RETRY)
    drive.add_many(3, delay=3600.0)
    drive.advance(60)

    if isinstance(place, PostgresPlace):
        with psycopg.connect(place.url) as conn:
            conn.execute("select set_config('windlass.fake_now', %s, true)", (str(drive.now),))
            ask = "select ready, retrying, scheduled from windlass.backlog(null, %s, %s)"
            found = conn.execute(ask, ([JOB], most)).fetchone()
    else:
        monkeypatch.setattr(runs, "MOST_COUNTED", most)
        backlog = drive.call(drive.ops.backlog(None, [JOB]))
        found = backlog.ready, backlog.retrying, backlog.scheduled

    assert found == (1, 2, 2)


# -- attempts ------------------------------------------------------------------------------------


@pytest.mark.both_faces
def test_all_attempts_are_read_in_pages_the_last_one_first(drive: Driver) -> None:
    run = drive.start().ref
    drive.register()
    for number in range(1, 14):
        held = drive.get(run)
        finish = Finish(
            tenant=run.tenant, id=run.id, token=held.token, outcome=Outcome.RETRY,
            error=make_error(message=f"no {number}"),
        )  # fmt: skip
        assert drive.finish_all([finish]).lost == ()
        drive.advance(1)
        drive.take(run)

    first = drive.call(drive.ops.list_attempts(run, None, 10))
    rest = drive.call(drive.ops.list_attempts(run, first[-1].attempt, 10))

    assert [a.attempt for a in first] == list(range(13, 3, -1))
    assert [a.attempt for a in rest] == [3, 2, 1]
    assert (first[0].error is not None and first[0].error.message) == "no 13"
    assert tuple(reversed(first)) == drive.get(run).attempts[-10:]
    assert drive.call(drive.ops.list_attempts(run, 1, 100)) == []
    assert drive.call(drive.ops.list_attempts(ref("nobody"), None, 100)) == []
