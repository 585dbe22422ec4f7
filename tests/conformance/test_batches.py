"""Batches: shards that are counted under a token, split, stopped, and begun anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import LEASE, Driver, held_of, make_finish, raw, value_of
from windlass.domain.batch import BatchCounts, BatchRow, NewBatch, Shard, ShardWrite, UnitFailure
from windlass.domain.outcome import Outcome
from windlass.domain.report import ErrorInfo
from windlass.domain.run import Claimed, Held, RunRef
from windlass.domain.states import Intent
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.errors import BadArguments

NEW = NewBatch(total=25, size=10, shards=3)
ERROR = ErrorInfo(type="ValueError", message="no")


@pytest.fixture(autouse=True)
def nothing_is_wrong(drive: Driver) -> Any:
    yield
    assert violations(History.read(drive.tables)) == []


def begin(
    drive: Driver, batch: NewBatch = NEW, *, parallel: int = 4
) -> tuple[Claimed, list[RunRef]]:
    """A batch whose shards are started."""
    parent = drive.start()
    opened = drive.call(drive.ops.open_batch(held_of(parent), batch, True))
    assert opened == BatchRow(total=batch.total, size=batch.size, shards=batch.shards)
    step = StepWrite(
        path="shards",
        kind=StepKind.CHILDREN,
        state=StepState.WAITING,
        value=raw({"parallel": parallel}),
    )
    runs = [drive.new() for _ in range(batch.shards)]
    drive.call(drive.ops.start_children(held_of(parent), step, 0, runs, parallel))
    return parent, [RunRef(run.tenant, run.id) for run in runs]


def opened(drive: Driver, claimed: Claimed) -> Shard:
    shard = drive.call(drive.ops.open_shard(held_of(claimed)))
    assert shard is not None
    return shard


def flush(drive: Driver, held: Held, succeeded: int, failed: int = 0, **more: Any) -> str | None:
    write = ShardWrite(succeeded=succeeded, failed=failed, **more)
    done = drive.call(drive.ops.flush_shard(held, write))
    return "lost" if done is None else done.stopped


def counts(drive: Driver, parent: Claimed) -> BatchCounts:
    found = drive.call(drive.ops.get_batch(parent.tenant, parent.id))
    assert found is not None
    return found


def failures(*numbers: int) -> tuple[UnitFailure, ...]:
    return tuple(UnitFailure(n=n, unit=raw(f"unit {n}"), error=ERROR) for n in numbers)


def test_shards_have_the_units_that_their_numbers_mean(drive: Driver) -> None:
    _, shards = begin(drive)
    found = [opened(drive, drive.take(shard)) for shard in shards]
    assert [(each.n, each.first, each.until) for each in found] == [
        (0, 0, 10), (1, 10, 20), (2, 20, 25),
    ]  # fmt: skip
    assert {bytes(each.input) for each in found} == {bytes(raw({"n": 1}))}


def test_a_shard_goes_on_after_its_last_flush(drive: Driver) -> None:
    parent, shards = begin(drive)
    first = drive.take(shards[1])
    opened(drive, first)
    assert flush(drive, held_of(first), 3, 1, failures=failures(12)) is None
    assert flush(drive, held_of(first), 3, 1, failures=failures(12)) is None  # sent again
    drive.finish_all([make_finish(first, Outcome.RELEASED)])
    second = drive.take(shards[1])
    shard = opened(drive, second)
    assert (shard.succeeded, shard.failed, shard.next) == (3, 1, 14)
    # The first attempt has no lease any more, and can write nothing.
    assert flush(drive, held_of(first), 9) == "lost"
    assert drive.call(drive.ops.open_shard(held_of(first))) is None
    assert counts(drive, parent) == BatchCounts(total=25, succeeded=3, failed=1, shards=3)
    (unit,) = drive.call(drive.ops.list_failed_units(parent.tenant, parent.id, -1, 10))
    assert (unit.n, unit.shard, unit.error.message, value_of(unit.unit)) == (12, 1, "no", "unit 12")
    assert drive.call(drive.ops.list_failed_units(parent.tenant, parent.id, 12, 10)) == []


def test_a_shard_that_gets_on_is_forgiven_its_crashes(drive: Driver) -> None:
    _, shards = begin(drive)
    crashes = []
    for done in (0, 2, 2, 2):
        claimed = drive.take(shards[0])
        crashes.append(claimed.crash_count)
        opened(drive, claimed)
        flush(drive, held_of(claimed), done)
        drive.advance(LEASE + 1)
        drive.sweep(reap=True, max_crashes=10)
    assert crashes == [0, 1, 1, 2]


def test_the_place_of_a_source_is_flushed_with_its_counts(drive: Driver) -> None:
    parent, (only,) = begin(drive, NewBatch(total=None, size=10, shards=1))
    claimed = drive.take(only)
    shard = opened(drive, claimed)
    assert (shard.first, shard.until, value_of(shard.place)) == (0, None, None)
    flush(drive, held_of(claimed), 7, place=raw({"after": 7}))
    assert counts(drive, parent).total is None
    shard = opened(drive, claimed)
    assert (shard.next, value_of(shard.place), shard.done) == (7, {"after": 7}, False)
    flush(drive, held_of(claimed), 9, place=raw({"after": 9}), done=True)
    found = counts(drive, parent)
    assert (found.total, found.processed, found.shards_done) == (9, 9, 1)


def test_shards_of_a_file_begin_at_their_bytes(drive: Driver) -> None:
    new = NewBatch(total=25, size=10, shards=3, begins=[5, 105, 205])
    _, shards = begin(drive, new)
    claimed = drive.take(shards[1])
    shard = opened(drive, claimed)
    assert (shard.first, shard.until, value_of(shard.place)) == (
        10,
        20,
        {"unit": 10, "offset": 105},
    )
    flush(drive, held_of(claimed), 4, place=raw({"unit": 14, "offset": 145}))
    half = drive.new()
    assert drive.call(drive.ops.split_shard(held_of(claimed), 17, 20, half)) is True
    shard = opened(drive, drive.take(RunRef(half.tenant, half.id)))
    assert (shard.first, shard.until, value_of(shard.place)) == (
        17,
        20,
        {"unit": 14, "offset": 145},
    )


def test_more_failures_than_allowed_stop_the_batch(drive: Driver) -> None:
    parent, shards = begin(drive)
    one, two = drive.take(shards[0]), drive.take(shards[1])
    opened(drive, one), opened(drive, two)
    assert flush(drive, held_of(one), 0, 2, failures=failures(0, 1), max_failed=3) is None
    told = flush(drive, held_of(two), 0, 2, failures=failures(10, 11), max_failed=3)
    assert told == "max_failed"
    assert flush(drive, held_of(one), 1, 2) == "max_failed"
    assert opened(drive, two).stopped == "max_failed"
    assert counts(drive, parent).stopped == "max_failed"
    # A batch that is opened once more, not anew, may go on; anew, it has nothing of the old one.
    drive.call(drive.ops.open_batch(held_of(parent), NEW, False))
    assert counts(drive, parent) == BatchCounts(total=25, succeeded=1, failed=4, shards=3)
    drive.call(drive.ops.open_batch(held_of(parent), NEW, True))
    assert counts(drive, parent) == BatchCounts(total=25, shards=3)
    assert drive.call(drive.ops.list_failed_units(parent.tenant, parent.id, -1, 10)) == []


def test_a_shard_is_split_once_and_only_ahead_of_its_cursor(drive: Driver) -> None:
    parent, shards = begin(drive)
    claimed = drive.take(shards[0])
    opened(drive, claimed)
    flush(drive, held_of(claimed), 4)
    held, run = held_of(claimed), drive.new()
    for at, until in [(4, 10), (3, 10), (10, 10), (7, 9)]:
        assert drive.call(drive.ops.split_shard(held, at, until, drive.new())) is False
    assert drive.call(drive.ops.split_shard(held, 7, 10, run)) is True
    assert drive.call(drive.ops.split_shard(held, 7, 10, run)) is True  # sent again
    assert counts(drive, parent).shards == 4
    # There may be four at work, and there are.
    assert drive.call(drive.ops.split_shard(held, 6, 7, drive.new())) is False
    new = opened(drive, drive.take(RunRef(run.tenant, run.id)))
    assert (new.n, new.first, new.until) == (3, 7, 10)
    assert opened(drive, claimed).until == 7
    places = drive.call(drive.ops.list_children(parent.tenant, parent.id, "shards", None, 10))
    assert [place.n for place in places] == [0, 1, 2, 3]
    drive.finish_all([make_finish(claimed, Outcome.RELEASED)])
    assert drive.call(drive.ops.split_shard(held, 6, 7, drive.new())) is None


def test_a_shard_of_a_batch_that_began_anew_can_write_nothing(drive: Driver) -> None:
    parent, shards = begin(drive)
    claimed = drive.take(shards[0])
    opened(drive, claimed)
    drive.finish_all([make_finish(parent, Outcome.WAITING, waits=("shards",))])
    drive.call(drive.ops.restart(parent.ref, None))
    assert flush(drive, held_of(claimed), 5) == "lost"
    assert drive.call(drive.ops.open_shard(held_of(claimed))) is None


def test_only_shards_are_flushed(drive: Driver) -> None:
    plain = drive.start()
    assert drive.call(drive.ops.open_shard(held_of(plain))) is None
    assert flush(drive, held_of(plain), 1) == "lost"
    assert drive.call(drive.ops.get_batch("default", plain.id)) is None
    _, shards = begin(drive)
    with pytest.raises(BadArguments):
        flush(drive, held_of(drive.take(shards[0])), 1)
    lost = Held(plain.tenant, plain.id, plain.token + 1)
    assert drive.call(drive.ops.open_batch(lost, NEW, True)) is None


def test_staged_units_wait_for_their_run(drive: Driver) -> None:
    batch = drive.new()
    name = (batch.tenant, batch.id)
    drive.call(drive.ops.stage_units(*name, 0, [raw(n) for n in range(3)], 60.0))
    drive.call(drive.ops.stage_units(*name, 3, [raw({"n": 3})], 60.0))
    drive.call(drive.ops.stage_units(*name, 3, [raw("sent again")], 60.0))
    assert drive.call(drive.ops.seal_units(*name, 5, 60.0)) is False
    assert drive.call(drive.ops.seal_units(*name, 4, 60.0)) is True
    page = drive.call(drive.ops.list_units(*name, 2))
    assert (page.first, [value_of(unit) for unit in page.units]) == (0, [0, 1, 2])
    page = drive.call(drive.ops.list_units(*name, 3))
    assert (page.first, [value_of(unit) for unit in page.units]) == (3, [{"n": 3}])
    drive.enqueue(batch)
    assert drive.call(drive.ops.drop_units(*name)) is False  # they belong to a run


def test_units_that_nobody_seals_are_deleted(drive: Driver) -> None:
    gone, kept = drive.new(), drive.new()
    for run in (gone, kept):
        for first in (0, 2, 4):
            units = [raw(first), raw(first + 1)]
            drive.call(drive.ops.stage_units(run.tenant, run.id, first, units, 10.0))
    drive.enqueue(kept)
    assert drive.call(drive.ops.sweep_units(100)) == 0
    drive.advance(11)
    assert drive.call(drive.ops.sweep_units(2)) == 2  # a part at a time
    assert drive.call(drive.ops.sweep_units(2)) == 1
    assert drive.call(drive.ops.sweep_units(2)) == 0
    assert drive.call(drive.ops.list_units(gone.tenant, gone.id, 0)).units == ()
    assert drive.call(drive.ops.seal_units(gone.tenant, gone.id, 6, 60.0)) is False
    assert len(drive.call(drive.ops.list_units(kept.tenant, kept.id, 0)).units) == 2
    other = drive.new()
    drive.call(drive.ops.stage_units(other.tenant, other.id, 0, [raw(1)], 10.0))
    assert drive.call(drive.ops.drop_units(other.tenant, other.id)) is True
    assert drive.call(drive.ops.drop_units(other.tenant, other.id)) is False


def parked(drive: Driver, *, parallel: int = 2) -> tuple[Claimed, list[RunRef], Claimed]:
    """A batch that waits for its shards, and the first of them, which runs."""
    parent, shards = begin(drive, parallel=parallel)
    drive.finish_all([make_finish(parent, Outcome.WAITING, waits=("shards",))])
    first = drive.take(shards[0])
    opened(drive, first)
    return parent, shards, first


def statuses(drive: Driver, runs: list[RunRef]) -> list[str]:
    drive.sweep(dispatch=True)
    return [str(drive.get(run).status) for run in runs]


def test_shards_pause_and_go_on_with_their_batch(drive: Driver) -> None:
    parent, shards, first = parked(drive)
    flush(drive, held_of(first), 2)
    drive.call(drive.ops.pause(parent.ref, None))
    assert statuses(drive, shards) == ["running", "paused", "scheduled"]
    assert drive.get(first.ref).intent is Intent.PAUSE
    # None that was held takes the place of one that ends while the batch is paused.
    flush(drive, held_of(first), 10, done=True)
    drive.finish_all([make_finish(first, Outcome.SUCCEEDED)])
    assert statuses(drive, shards) == ["succeeded", "paused", "scheduled"]
    drive.call(drive.ops.resume(parent.ref))
    assert statuses(drive, shards) == ["succeeded", "queued", "queued"]


def test_no_shard_is_split_while_its_batch_is_paused(drive: Driver) -> None:
    parent, _, first = parked(drive, parallel=4)
    drive.call(drive.ops.pause(parent.ref, None))
    assert drive.call(drive.ops.split_shard(held_of(first), 7, 10, drive.new())) is False
    drive.call(drive.ops.resume(parent.ref))
    assert drive.call(drive.ops.split_shard(held_of(first), 7, 10, drive.new())) is True


def test_a_shard_that_is_resumed_alone_is_not_paused_again(drive: Driver) -> None:
    parent, shards, first = parked(drive)
    drive.call(drive.ops.pause(first.ref, None))
    drive.call(drive.ops.pause(parent.ref, None))
    assert statuses(drive, shards[:2]) == ["running", "paused"]
    drive.call(drive.ops.resume(shards[1]))
    drive.call(drive.ops.pause(parent.ref, None))  # once more
    assert statuses(drive, shards[:2]) == ["running", "queued"]
    drive.call(drive.ops.resume(parent.ref))
    assert statuses(drive, shards[:2]) == ["running", "queued"]
    assert drive.get(first.ref).intent is Intent.PAUSE  # by an operator, not by its batch


def test_a_batch_that_is_resumed_before_anybody_looked_has_paused_nothing(drive: Driver) -> None:
    parent, shards, first = parked(drive)
    drive.call(drive.ops.pause(parent.ref, None))
    drive.call(drive.ops.resume(parent.ref))
    assert statuses(drive, shards) == ["running", "queued", "scheduled"]
    assert drive.get(first.ref).intent is None


@pytest.mark.parametrize("again", [False, True])
def test_a_batch_that_is_terminated_takes_its_shards_with_it(drive: Driver, again: bool) -> None:
    parent, shards, first = parked(drive)
    flush(drive, held_of(first), 4)
    if again:  # it was canceled before, and its shard does not react
        drive.call(drive.ops.cancel(parent.ref, None))
        assert statuses(drive, shards) == ["running", "canceled", "canceled"]
    drive.call(drive.ops.terminate(parent.ref, None))
    assert statuses(drive, shards) == ["canceled"] * 3
    assert flush(drive, held_of(first), 5) == "lost"
    # A retry starts all of them anew, and each goes on after its last flush.
    drive.call(drive.ops.retry(parent.ref, None))
    claimed = drive.take(parent.ref)
    step = StepWrite(path="shards", kind=StepKind.CHILDREN, state=StepState.WAITING)
    runs = [drive.new() for _ in shards]
    done = drive.call(drive.ops.start_children(held_of(claimed), step, 0, runs, 4))
    assert done.started == 3
    shard = opened(drive, drive.take(RunRef(runs[0].tenant, runs[0].id)))
    assert (shard.n, shard.next, shard.stopped) == (0, 4, None)


def test_a_shard_that_was_asked_to_end_has_no_place_after_a_retry(drive: Driver) -> None:
    parent, shards, first = parked(drive, parallel=4)
    second = drive.take(shards[1])
    opened(drive, second)
    drive.call(drive.ops.cancel(parent.ref, None))
    assert statuses(drive, shards) == ["running", "running", "canceled"]
    flush(drive, held_of(second), 10, done=True)
    drive.finish_all([make_finish(second, Outcome.SUCCEEDED)])  # it succeeds before it notices
    drive.call(drive.ops.retry(parent.ref, None))
    assert flush(drive, held_of(first), 5) == "lost"
    claimed = drive.take(parent.ref)
    step = StepWrite(path="shards", kind=StepKind.CHILDREN, state=StepState.WAITING)
    assert drive.call(drive.ops.start_children(held_of(claimed), step, 0, (), 4)).started == 1
