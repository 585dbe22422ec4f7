"""Children: started once under a token, counted whoever ends them, held, woken and canceled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, held_of, make_finish, raw, value_of
from windlass.domain.child import ChildRow, Started
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Held, NewRun, RunRef, SweepReply
from windlass.domain.states import Failure, Status
from windlass.domain.step import Step, StepKind, StepState, StepWrite
from windlass.errors import BadArguments


@pytest.fixture(autouse=True)
def nothing_is_wrong(drive: Driver) -> Any:
    yield
    assert violations(History.read(drive.tables)) == []


def asks(path: str = "kids", *, parallel: int | None = None, one: bool = False) -> StepWrite:
    return StepWrite(
        path=path,
        kind=StepKind.CHILD if one else StepKind.CHILDREN,
        state=StepState.WAITING,
        input="told",
        value=None if parallel is None else raw({"parallel": parallel}),
    )


def start(
    drive: Driver,
    parent: Claimed,
    number: int,
    step: StepWrite | None = None,
    *,
    first: int = 0,
    parallel: int | None = None,
    runs: list[NewRun] | None = None,
) -> Started:
    wanted = step or asks(parallel=parallel)
    made = [drive.new() for _ in range(number)] if runs is None else runs
    return drive.call(drive.ops.start_children(held_of(parent), wanted, first, made, parallel))


def look(drive: Driver, parent: Claimed, path: str = "kids", *, tolerant: bool = False) -> Step:
    step = drive.call(drive.ops.await_children(held_of(parent), path, tolerant))
    assert step is not None
    return step


def children_of(drive: Driver, parent: Claimed, path: str | None = None) -> list[ChildRow]:
    return list(drive.call(drive.ops.list_children(parent.tenant, parent.id, path, None, 100)))


def refs(parent: Claimed, rows: list[ChildRow]) -> list[RunRef]:
    return [RunRef(parent.tenant, row.id) for row in rows]


def end(drive: Driver, run: RunRef, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> None:
    claimed = drive.take(run)
    assert drive.finish_all([make_finish(claimed, outcome, **fields)]).lost == ()


def park(drive: Driver, parent: Claimed, *paths: str) -> Status:
    finish = make_finish(parent, Outcome.WAITING, waits=paths or ("kids",))
    assert drive.finish_all([finish]).lost == ()
    return drive.get(parent.ref).status


def sweep(drive: Driver) -> SweepReply:
    return drive.sweep(dispatch=True, expire=True)


def test_children_are_linked_to_their_parent(drive: Driver) -> None:
    parent = drive.start()

    started = start(drive, parent, 3)

    assert (started.started, started.lost) == (3, False)
    rows = children_of(drive, parent)
    assert [(row.path, row.n, row.state, row.status) for row in rows] == [
        ("kids", n, "live", None) for n in range(3)
    ]
    assert list(started.ready) == refs(parent, rows)
    child = drive.get(started.ready[0])
    assert (child.status, child.parent, child.root) == (Status.QUEUED, parent.id, parent.id)
    grandparent = drive.get(parent.ref)
    assert (grandparent.parent, grandparent.root) == (None, None)
    claimed = drive.take(started.ready[0])
    assert claimed.extras is None or claimed.extras.is_child is True

    start(drive, claimed, 1)
    (grandchild,) = children_of(drive, claimed)
    assert drive.get(RunRef("default", grandchild.id)).root == parent.id


def test_a_worker_that_lost_its_lease_starts_nothing(drive: Driver) -> None:
    parent = drive.start()
    stale = Held(parent.tenant, parent.id, parent.token - 1)

    done = drive.call(drive.ops.start_children(stale, asks(), 0, [drive.new()], None))

    assert done == Started(lost=True)
    assert children_of(drive, parent) == []
    start(drive, parent, 1)
    assert drive.call(drive.ops.await_children(stale, "kids")) is None
    assert look(drive, parent).state is StepState.WAITING


def test_a_place_is_taken_once(drive: Driver) -> None:
    """A call that is repeated, with the same ids or in a replay with others, starts none again."""
    parent = drive.start()
    runs = [drive.new() for _ in range(3)]
    start(drive, parent, 3, runs=runs)
    before = children_of(drive, parent)

    assert start(drive, parent, 3, runs=runs).ready == ()
    again = start(drive, parent, 5)

    assert (again.started, len(again.ready)) == (5, 2)
    rows = children_of(drive, parent)
    assert rows[:3] == before
    assert [row.n for row in rows] == list(range(5))


def test_pages_go_on_where_the_last_one_ended(drive: Driver) -> None:
    parent = drive.start()

    counts = [start(drive, parent, 2, first=first).started for first in (0, 2, 4)]

    assert counts == [2, 4, 6]
    listed = drive.call(drive.ops.list_children("default", parent.id, None, ("kids", 1), 3))
    assert [row.n for row in listed] == [2, 3, 4]


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_the_only_child_gives_the_step_its_end(drive: Driver, outcome: Outcome) -> None:
    parent = drive.start()
    (child,) = start(drive, parent, 1, asks(one=True)).ready
    assert look(drive, parent).state is StepState.WAITING

    fields = {"result": raw({"b": 1, "a": 2})} if outcome is Outcome.SUCCEEDED else {}
    end(drive, child, outcome, **fields)

    step = look(drive, parent)
    assert step.value is not None
    assert step.input == "told"
    if outcome is Outcome.SUCCEEDED:
        assert step.state is StepState.DONE
        assert list(value_of(step.value)) == ["b", "a"], "as it was written"
    else:
        assert (step.state, step.failures) == (StepState.FAILED, 1)
        assert step.error is not None
        assert step.error.message == "boom"
        assert value_of(step.value) == {
            "run": child.id, "status": "failed", "failure": "fatal", "reason": None,
        }  # fmt: skip
    assert look(drive, parent) == step


@pytest.mark.parametrize("tolerant", [False, True])
def test_several_children_have_to_succeed_unless_that_is_tolerated(
    drive: Driver, tolerant: bool
) -> None:
    parent = drive.start()
    first, second, third = start(drive, parent, 3).ready
    end(drive, first)
    end(drive, second, Outcome.FAILED)
    assert look(drive, parent, tolerant=tolerant).state is StepState.WAITING
    drive.call(drive.ops.cancel(third, "enough"))

    step = look(drive, parent, tolerant=tolerant)

    assert step.state is (StepState.DONE if tolerant else StepState.FAILED)
    assert step.value is not None
    assert value_of(step.value) == {"total": 3, "failed": 2}
    rows = children_of(drive, parent)
    assert [row.status for row in rows] == [Status.SUCCEEDED, Status.FAILED, Status.CANCELED]
    assert [row.failure for row in rows] == [None, Failure.FATAL, None]
    assert rows[2].reason == "enough"


def test_no_children_have_all_ended(drive: Driver) -> None:
    parent = drive.start()
    assert start(drive, parent, 0).started == 0

    step = look(drive, parent)

    assert step.value is not None
    assert (step.state, value_of(step.value)) == (StepState.DONE, {"total": 0, "failed": 0})


def test_a_parent_goes_on_when_the_last_child_has_ended(drive: Driver) -> None:
    parent = drive.start()
    first, second = start(drive, parent, 2).ready
    assert park(drive, parent) is Status.WAITING

    end(drive, first)
    assert sweep(drive).dispatched == ()
    end(drive, second)
    assert drive.get(parent.ref).status is Status.WAITING
    assert drive.call(drive.ops.backlog(None, None)).ready == 1, "no worker may leave now"
    assert sweep(drive).dispatched == (parent.ref,)

    assert drive.get(parent.ref).status is Status.QUEUED
    assert drive.tables.rows("wakes") == []


def test_a_parent_whose_children_have_ended_does_not_wait(drive: Driver) -> None:
    parent = drive.start()
    (child,) = start(drive, parent, 1).ready
    end(drive, child)

    assert park(drive, parent) is Status.QUEUED

    assert sweep(drive).dispatched == ()


@pytest.mark.parametrize("way", ["cancel", "expire", "deadline", "crash"])
def test_every_end_counts(drive: Driver, way: str) -> None:
    parent = drive.start()
    runs = [drive.new(expires_in=5.0 if way == "expire" else None,
                      deadline_in=5.0 if way == "deadline" else None)]  # fmt: skip
    (child,) = start(drive, parent, 1, runs=runs).ready
    assert park(drive, parent) is Status.WAITING

    match way:
        case "cancel":
            drive.call(drive.ops.cancel(child, None))
        case "crash":
            drive.take(child, "doomed")
            drive.advance(100)
            drive.sweep(reap=True, max_crashes=1)
        case _:
            drive.advance(10)
    swept = sweep(drive)

    assert parent.ref in swept.dispatched
    assert drive.get(parent.ref).status is Status.QUEUED


def test_a_child_that_is_deleted_has_ended(drive: Driver) -> None:
    parent = drive.start()
    (child,) = start(drive, parent, 1, asks(one=True)).ready
    assert park(drive, parent) is Status.WAITING

    drive.tables.delete_run(child)

    assert sweep(drive).dispatched == (parent.ref,)
    step = look(drive, drive.take(parent.ref))
    assert step.value is not None
    assert (step.state, value_of(step.value)["status"]) == (StepState.FAILED, "deleted")
    drive.tables.empty()  # its events are of nobody


def test_as_many_are_live_as_may_be(drive: Driver) -> None:
    parent = drive.start()
    first = start(drive, parent, 3, parallel=2)
    more = start(drive, parent, 2, asks(parallel=2), first=3, parallel=2)

    assert (len(first.ready), len(more.ready)) == (2, 0)
    rows = children_of(drive, parent)
    assert [row.state for row in rows] == ["live", "live", "held", "held", "held"]
    held = drive.get(RunRef("default", rows[2].id))
    assert (held.status, held.waiting_for, held.due_at) == (Status.SCHEDULED, "held", None)
    park(drive, parent)
    for n in range(5):
        end(drive, RunRef("default", rows[n].id))
        ready = sweep(drive).dispatched
        expected = [rows[n + 2].id] if n < 3 else [parent.id] if n == 4 else []
        assert [run.id for run in ready] == expected


def test_a_held_child_that_is_canceled_makes_no_room(drive: Driver) -> None:
    parent = drive.start()
    start(drive, parent, 3, parallel=1)
    rows = children_of(drive, parent)
    drive.call(drive.ops.cancel(RunRef("default", rows[1].id), None))
    assert sweep(drive).dispatched == ()

    end(drive, RunRef("default", rows[0].id))

    assert [run.id for run in sweep(drive).dispatched] == [rows[2].id]


def test_a_cancel_reaches_children_and_theirs(drive: Driver) -> None:
    parent = drive.start()
    kids = start(drive, parent, 3, parallel=2).ready
    child = drive.take(kids[0])
    start(drive, child, 1)
    (grandchild,) = children_of(drive, child)
    merely = drive.add(enqueued_by=parent.id)
    assert park(drive, child) is Status.WAITING
    park(drive, parent)
    running = drive.take(kids[1])

    drive.call(drive.ops.cancel(parent.ref, "stop it"))
    for _ in range(3):
        sweep(drive)

    ids = [row.id for row in children_of(drive, parent)] + [grandchild.id]
    found = {id: drive.get(RunRef("default", id)) for id in ids}
    assert found.pop(running.id).intent == "cancel"
    assert {run.status for run in found.values()} == {Status.CANCELED}
    assert {run.reason for run in found.values()} == {"its parent was canceled"}
    assert drive.get(merely).status is Status.QUEUED
    assert drive.tables.rows("wakes") == []


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_children_outlive_a_parent_that_ends_by_itself(drive: Driver, outcome: Outcome) -> None:
    parent = drive.start()
    start(drive, parent, 2, parallel=1)
    drive.finish_all([make_finish(parent, outcome)])
    first, second = refs(parent, children_of(drive, parent))

    end(drive, first)
    assert sweep(drive).dispatched == (second,)
    end(drive, second)
    sweep(drive)

    assert drive.get(second).status is Status.SUCCEEDED


def test_a_reopened_parent_starts_anew_what_did_not_succeed(drive: Driver) -> None:
    parent = drive.start()
    first, second = start(drive, parent, 2).ready
    end(drive, first)
    end(drive, second, Outcome.FAILED)
    assert look(drive, parent).state is StepState.FAILED
    drive.finish_all([make_finish(parent, Outcome.FAILED)])
    sweep(drive)

    drive.call(drive.ops.retry(parent.ref, None, None))
    again = drive.take(parent.ref)
    started = start(drive, again, 2)

    assert (started.started, len(started.ready)) == (2, 1)
    rows = children_of(drive, again)
    assert rows[0].id == first.id
    assert rows[1].id not in (first.id, second.id)
    end(drive, started.ready[0])
    assert look(drive, again).state is StepState.DONE


def test_a_child_that_is_reopened_is_waited_for_again(drive: Driver) -> None:
    parent = drive.start()
    first, second = start(drive, parent, 2).ready
    end(drive, first, Outcome.FAILED)
    park(drive, parent)
    drive.call(drive.ops.retry(first, None, None))
    end(drive, second)
    assert sweep(drive).dispatched == ()

    end(drive, first)

    assert sweep(drive).dispatched == (parent.ref,)


def test_steps_of_other_kinds_have_no_children(drive: Driver) -> None:
    parent = drive.start()
    plain = StepWrite(path="kids", kind=StepKind.STEP, state=StepState.WAITING)
    for call in (
        drive.ops.start_children(held_of(parent), plain, 0, [drive.new()], None),
        drive.ops.start_children(held_of(parent), asks(), 0, [drive.new()], 0),
        drive.ops.await_children(held_of(parent), "nothing"),
    ):
        with pytest.raises(BadArguments):
            drive.call(call)
    assert children_of(drive, parent) == []
