"""Enqueue: runs, all or none; repeats by id or key make no second run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.conformance.kit import JOB, QUEUE, Driver, ids, raw, ref, value_of
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Enqueued, Options, RunRef
from windlass.domain.states import Failure, Status
from windlass.errors import BadArguments, KeyConflict


def test_a_run_is_queued_at_once_with_its_first_event(drive: Driver) -> None:
    run = drive.new(priority=3, trace="00-ab", job_version="v2", options=Options(timeout=2.5))

    (answer,) = drive.enqueue(run)

    assert answer.id == run.id
    assert answer.created
    assert answer.status is Status.QUEUED
    assert answer.created_at == answer.scheduled_for == drive.now
    record = drive.get(ref(run.id))
    assert record.status is Status.QUEUED
    assert (record.job, record.queue, record.priority) == (JOB, QUEUE, 3)
    assert (record.attempt, record.failures, record.crash_count, record.token) == (0, 0, 0, 0)
    assert record.created_at == record.scheduled_for == record.updated_at == drive.now
    assert value_of(record.input) == {"n": 1}
    assert record.options == Options(timeout=2.5)
    assert record.trace == "00-ab"
    assert value_of(record.result) is None
    assert (record.started_at, record.finished_at, record.worker, record.due_at) == (None,) * 4
    assert record.attempts == ()
    (event,) = drive.events(ref(run.id))
    assert (event.seq, event.type, event.at, event.attempt, event.data) == (
        1, EventType.ENQUEUED, drive.now, 0, None,
    )  # fmt: skip
    assert drive.positions(ref(run.id)) == ["ready"]
    assert [row["job_version"] for row in drive.rows("runs")] == ["v2"]


def test_a_batch_answers_in_the_order_given(drive: Driver) -> None:
    runs = [drive.new(queue=f"q{n % 3}", input=raw({"n": n})) for n in range(20)]
    runs.reverse()

    answers = drive.enqueue(*runs)

    assert ids(answers) == [run.id for run in runs]
    assert all(answer.created for answer in answers)
    stored = {record.id: record for record in drive.call(drive.ops.get_runs("default", ids(runs)))}
    assert {run.id: value_of(run.input) for run in runs} == {
        ident: value_of(record.input) for ident, record in stored.items()
    }


def test_an_empty_batch_is_nothing(drive: Driver) -> None:
    assert list(drive.enqueue()) == []


@pytest.mark.parametrize("batch", [1, 2])
def test_a_delay_makes_it_scheduled(drive: Driver, batch: int) -> None:
    runs = [drive.new(delay=90.5) for _ in range(batch)]

    answers = drive.enqueue(*runs)

    for answer in answers:
        assert answer.status is Status.SCHEDULED
        assert answer.created_at == drive.now
        assert answer.scheduled_for == drive.later(90.5)
        record = drive.get(ref(answer.id))
        assert record.status is Status.SCHEDULED
        assert record.due_at == record.scheduled_for == drive.later(90.5)
        assert record.waiting_for == "delay"
        (event,) = drive.events(ref(answer.id))
        assert event.data == {"why": "delay"}
        assert drive.positions(ref(answer.id)) == ["timers"]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_named_instant_makes_it_scheduled(steer: Driver, batch: int) -> None:
    at = steer.later(3600)

    answers = steer.enqueue(*(steer.new(at=at) for _ in range(batch)))

    assert [answer.status for answer in answers] == [Status.SCHEDULED] * batch
    assert [answer.scheduled_for for answer in answers] == [at] * batch
    assert [steer.get(ref(answer.id)).due_at for answer in answers] == [at] * batch


@pytest.mark.parametrize("batch", [1, 2])
def test_an_instant_in_the_past_is_now(steer: Driver, batch: int) -> None:
    past = steer.now - timedelta(days=2)

    answers = steer.enqueue(*(steer.new(at=past) for _ in range(batch)))

    for answer in answers:
        assert answer.status is Status.QUEUED
        assert answer.scheduled_for == steer.now
        assert steer.get(ref(answer.id)).scheduled_for == steer.now
        assert steer.positions(ref(answer.id)) == ["ready"]


def test_no_delay_is_now(drive: Driver) -> None:
    answers = drive.enqueue(drive.new(delay=0.0), drive.new(delay=0.0))

    assert [answer.status for answer in answers] == [Status.QUEUED] * 2


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("field", ["delay", "key_ttl", "expires_in", "deadline_in"])
def test_a_negative_length_of_time_is_refused(steer: Driver, field: str, batch: int) -> None:
    runs = [steer.new(**{field: -1.0, "key": f"k{n}"}) for n in range(batch)]

    with pytest.raises(BadArguments):
        steer.enqueue(*runs)

    assert steer.rows("runs") == steer.rows("events") == steer.rows("run_keys") == []


@pytest.mark.parametrize("batch", [1, 2])
def test_an_id_that_is_no_uuid_is_refused(drive: Driver, batch: int) -> None:
    runs = [drive.new(id=f"run-{n}") for n in range(batch)]

    with pytest.raises(BadArguments):
        drive.enqueue(*runs)

    assert drive.rows("runs") == []


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("which", ["expires", "deadline"])
def test_an_expiry_and_a_deadline_are_kept(steer: Driver, batch: int, which: str) -> None:
    within = steer.enqueue(*(steer.new(**{f"{which}_in": 10.0}) for _ in range(batch)))
    at = steer.enqueue(*(steer.new(**{f"{which}_at": steer.later(20)}) for _ in range(batch)))

    def kept(answer: Enqueued) -> object:
        return getattr(steer.get(ref(answer.id)), f"{which}_at")

    assert [kept(answer) for answer in within] == [steer.later(10)] * batch
    assert [kept(answer) for answer in at] == [steer.later(20)] * batch


@pytest.mark.parametrize("batch", [1, 2])
def test_tags_are_kept_in_order_and_found_once_each(drive: Driver, batch: int) -> None:
    tags = ("blue", "a,b", 'quo"te', "back\\slash", "{x}", "ünï", "null", "blue")

    answers = drive.enqueue(*(drive.new(tags=tags) for _ in range(batch)))

    for answer in answers:
        assert drive.get(ref(answer.id)).tags == tags
        mine = [row["tag"] for row in drive.rows("run_tags", id=answer.id)]
        assert sorted(mine) == sorted(set(tags))


@pytest.mark.parametrize("options", [{}, {"tags": ("t",)}], ids=["plain", "tagged"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    "document",
    [
        {},
        None,
        [1, 2.5, "x"],
        {"quote": 'say "hi"', "back": "a\\b\\\\c", "brace": "{1,2}", "line": "a\nb\tc"},
        {"ünï": "☃ 𝄞 \u2028", "empty": "", "null": None, "deep": [[{"a": [None, True]}]]},
        {"big": 2**53 + 1, "negative": -(2**63), "small": 1e-300, "percent": "%s %(x)s :now ?"},
    ],
)
def test_input_comes_back_as_it_was(
    steer: Driver, document: object, batch: int, options: dict[str, Any]
) -> None:
    runs = [steer.new(input=raw(document), **options) for _ in range(batch)]
    steer.enqueue(*runs)
    steer.register()

    claimed = steer.claim().claimed

    assert [value_of(run.input) for run in claimed] == [document] * batch
    assert [value_of(steer.get(run.ref).input) for run in claimed] == [document] * batch


# -- ids -----------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [0, 1])
def test_a_known_id_makes_no_second_run(drive: Driver, others: int) -> None:
    run = drive.new(tags=("t",), delay=5.0)
    drive.enqueue(run)
    drive.advance(1)
    before = (drive.rows("runs"), drive.rows("timers"), drive.rows("events"))

    answer, *_ = drive.enqueue(run, *(drive.new() for _ in range(others)))

    assert answer.id == run.id
    assert not answer.created
    assert [row for row in drive.rows("runs") if row["id"] == run.id] == before[0]
    assert drive.rows("timers") == before[1]
    assert [row for row in drive.rows("events") if row["subject"] == run.id] == before[2]


def test_the_same_id_twice_in_one_batch_makes_one_run(drive: Driver) -> None:
    run = drive.new()

    answers = drive.enqueue(run, drive.new(), run)

    assert [answer.created for answer in answers] == [True, True, False]
    assert answers[2].id == run.id
    assert len(drive.rows("runs")) == len(drive.rows("ready")) == len(drive.rows("events")) == 2


def test_ids_are_unique_within_a_tenant_only(drive: Driver) -> None:
    run = drive.new(tenant="one")
    drive.enqueue(run)
    twin = drive.new(id=run.id, tenant="two", input=raw({"n": 2}))

    answers = drive.enqueue(run, twin)

    assert [answer.created for answer in answers] == [False, True]
    assert value_of(drive.get(ref(run.id, "one")).input) == {"n": 1}
    assert value_of(drive.get(ref(run.id, "two")).input) == {"n": 2}


def test_a_known_id_is_answered_after_the_run_has_ended(drive: Driver) -> None:
    run = drive.new()
    drive.enqueue(run)
    drive.register()
    (claimed,) = drive.claim().claimed
    drive.finish(claimed, Outcome.SUCCEEDED)

    (answer,) = drive.enqueue(run)

    assert (answer.id, answer.created) == (run.id, False)
    assert drive.get(claimed.ref).status is Status.SUCCEEDED
    assert drive.positions(claimed.ref) == []


# -- keys ----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2])
def test_the_same_key_answers_with_the_first_run(drive: Driver, batch: int) -> None:
    first = drive.new(key="welcome-7")
    drive.enqueue(first)
    again = drive.new(key="welcome-7")

    answer = drive.enqueue(again, *(drive.new() for _ in range(batch - 1)))[0]

    assert (answer.id, answer.created) == (first.id, False)
    assert [row["id"] for row in drive.rows("runs", key="welcome-7")] == [first.id]
    assert drive.call(drive.ops.get_run(ref(again.id))) is None
    assert drive.get(ref(first.id)).key == "welcome-7"


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELED])
def test_a_key_holds_after_the_run_has_ended(steer: Driver, outcome: Outcome) -> None:
    first = steer.ended(outcome, key="k")

    (answer,) = steer.enqueue(steer.new(key="k"))

    assert (answer.id, answer.created) == (first.id, False)


def test_equal_input_written_otherwise_is_the_same_input(drive: Driver) -> None:
    first = drive.new(key="k", input=msgspec.Raw(b'{"a":1,"b":[2,"\xc3\xbc"]}'))
    drive.enqueue(first)

    (answer,) = drive.enqueue(
        drive.new(key="k", input=msgspec.Raw(b'{ "b": [2, "\\u00fc"], "a": 1 }'))
    )

    assert (answer.id, answer.created) == (first.id, False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0.0", "0"),
        ("0.50", "5e-1"),
        ('{"ab": 1, "c": 2.50}', '{"c":2.5,"ab":1.0}'),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
    ],
)
def test_inputs_of_one_key_compare_as_json_values(drive: Driver, one: str, other: str) -> None:
    first = drive.new(key="k", input=msgspec.Raw(one.encode()))
    drive.enqueue(first)

    (answer,) = drive.enqueue(drive.new(key="k", input=msgspec.Raw(other.encode())))

    assert (answer.id, answer.created) == (first.id, False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12345678901234567890", "12345678901234567891"),
        ("0.3", "0.30000000000000004"),
        ("1", '"1"'),
        ('"1.0"', '"1"'),
        ("[]", "{}"),
    ],
)
def test_other_values_of_one_key_are_a_conflict(drive: Driver, one: str, other: str) -> None:
    drive.enqueue(drive.new(key="k", input=msgspec.Raw(one.encode())))

    with pytest.raises(KeyConflict):
        drive.enqueue(drive.new(key="k", input=msgspec.Raw(other.encode())))


def _in_status(steer: Driver, status: Status, **fields: Any) -> RunRef:
    """A run that is in this status."""
    match status:
        case Status.QUEUED:
            return steer.add(**fields)
        case Status.SCHEDULED:
            return steer.add(delay=60.0, **fields)
        case Status.RUNNING:
            return steer.start(**fields).ref
        case _:
            return steer.ended(Outcome(status), **fields)


@pytest.mark.parametrize("status", [s for s in Status if s not in (Status.WAITING, Status.PAUSED)])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("by", ["key", "id"])
def test_a_repeat_answers_with_the_run_as_it_is(
    steer: Driver, status: Status, batch: int, by: str
) -> None:
    first = _in_status(steer, status, key="k" if by == "key" else None)
    record = steer.get(first)
    assert record.status is status
    steer.advance(5.0)
    again = steer.new(key="k") if by == "key" else steer.new(id=first.id)

    answers = steer.enqueue(again, *(steer.new() for _ in range(batch - 1)))

    answer = answers[0]
    assert (answer.id, answer.created, answer.status) == (first.id, False, status)
    assert (answer.created_at, answer.scheduled_for) == (record.created_at, record.scheduled_for)
    assert [other.created for other in answers[1:]] == [True] * (batch - 1)


@pytest.mark.parametrize("delay", [None, 60.0])
def test_a_repeat_within_a_batch_answers_with_the_run_that_it_made(
    steer: Driver, delay: float | None
) -> None:
    first = steer.new(key="k", delay=delay)
    twin = steer.new(key="k2")

    made, by_key, by_id, *_ = steer.enqueue(first, steer.new(key="k"), first, twin, twin)

    assert [by_key.created, by_id.created] == [False, False]
    for answer in (by_key, by_id):
        assert (answer.id, answer.status) == (made.id, made.status)
        assert (answer.created_at, answer.scheduled_for) == (made.created_at, made.scheduled_for)


@pytest.mark.parametrize("place_in_batch", [0, 1, 2])
def test_the_same_key_with_other_input_writes_nothing(steer: Driver, place_in_batch: int) -> None:
    first = steer.add(key="k")
    before = {table: steer.rows(table) for table in ("runs", "ready", "events", "run_keys")}
    batch = [steer.new(key="other", tags=("t",)), steer.new(delay=1.0)]
    batch.insert(place_in_batch, steer.new(key="k", input=raw({"n": 2})))

    with pytest.raises(KeyConflict) as caught:
        steer.enqueue(*batch)

    assert (caught.value.job, caught.value.key, caught.value.run) == (JOB, "k", first.id)
    assert {table: steer.rows(table) for table in before} == before
    assert steer.rows("timers") == steer.rows("run_tags") == []


def test_the_same_key_alone_with_other_input_is_a_conflict(drive: Driver) -> None:
    first = drive.add(key='it"s \\ {k}')

    with pytest.raises(KeyConflict) as caught:
        drive.enqueue(drive.new(key='it"s \\ {k}', input=raw({"n": 2})))

    assert (caught.value.job, caught.value.key, caught.value.run) == (
        JOB, 'it"s \\ {k}', first.id,
    )  # fmt: skip
    assert len(drive.rows("runs")) == 1


def test_a_key_belongs_to_its_tenant_and_job(drive: Driver) -> None:
    runs = [
        drive.new(key="k"),
        drive.new(key="k", job="other", input=raw({"n": 2})),
        drive.new(key="k", tenant="acme", input=raw({"n": 3})),
    ]

    assert [answer.created for answer in drive.enqueue(*runs)] == [True] * 3


def test_two_of_one_batch_share_a_key_and_the_first_answers_for_both(drive: Driver) -> None:
    early, late = drive.new(key="k"), drive.new(key="k")
    assert early.id < late.id

    answers = drive.enqueue(drive.new(), late, early)

    assert [answer.created for answer in answers] == [True, True, False]
    assert ids(answers)[1:] == [late.id, late.id]
    assert len(drive.rows("runs")) == 2


def test_two_of_one_batch_with_a_key_and_different_input_are_refused(drive: Driver) -> None:
    with pytest.raises(KeyConflict):
        drive.enqueue(drive.new(key="k"), drive.new(key="k", input=raw({"n": 2})))

    assert drive.rows("runs") == drive.rows("run_keys") == []


def test_a_batch_mixes_known_keys_known_ids_and_new_runs(drive: Driver) -> None:
    by_key, by_id = drive.new(key="k"), drive.new()
    drive.enqueue(by_key, by_id)
    fresh = [drive.new(key="k2"), drive.new()]

    answers = drive.enqueue(fresh[0], drive.new(key="k"), by_id, fresh[1])

    assert ids(answers) == [fresh[0].id, by_key.id, by_id.id, fresh[1].id]
    assert [answer.created for answer in answers] == [True, False, False, True]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_key_holds_until_its_time_has_passed(steer: Driver, batch: int) -> None:
    first = steer.add(key="k", key_ttl=60.0)
    steer.advance(59.999999)

    answer = steer.enqueue(steer.new(key="k"), *(steer.new() for _ in range(batch - 1)))[0]

    assert (answer.id, answer.created) == (first.id, False)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_key_whose_time_has_passed_is_taken_over(drive: Driver, batch: int) -> None:
    drive.add(key="k", key_ttl=60.0)
    drive.advance(60)
    second = drive.new(key="k", input=raw({"n": 2}))

    answer = drive.enqueue(second, *(drive.new() for _ in range(batch - 1)))[0]

    assert (answer.id, answer.created) == (second.id, True)
    drive.advance(10_000_000)
    (third,) = drive.enqueue(drive.new(key="k", input=raw({"n": 2})))
    assert (third.id, third.created) == (second.id, False), "the new owner gave no ttl"


@pytest.mark.parametrize("batch", [1, 2])
def test_a_repeat_is_answered_with_its_own_run_though_its_key_is_taken(
    drive: Driver, batch: int
) -> None:
    first = drive.new(key="k", key_ttl=60.0)
    drive.enqueue(first)
    drive.advance(60)
    second = drive.new(key="k", input=raw({"n": 2}))
    drive.enqueue(second)

    answer = drive.enqueue(first, *(drive.new() for _ in range(batch - 1)))[0]

    assert (answer.id, answer.created) == (first.id, False)
    (key,) = drive.rows("run_keys", key="k")
    assert key["run"] == second.id


def test_a_known_id_takes_no_other_key(drive: Driver) -> None:
    run = drive.new()
    drive.enqueue(run)

    (answer,) = drive.enqueue(drive.new(id=run.id, key="k"))

    assert (answer.id, answer.created) == (run.id, False)
    assert drive.rows("run_keys") == []


def test_a_failed_run_keeps_its_failure_when_its_key_is_repeated(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED, key="k")

    drive.enqueue(drive.new(key="k"))

    assert drive.get(run).failure is Failure.FATAL
