"""The audit log: who did what to which run, in the transaction that did it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.conformance.kit import Driver, raw
from tests.conformance.test_children import children_of, refs, start
from windlass.domain.audit import AuditEntry
from windlass.domain.bulk import BULK_VERBS
from windlass.domain.changes import Changes
from windlass.domain.outcome import Outcome
from windlass.domain.run import Options, RunRef
from windlass.domain.states import Status
from windlass.errors import IllegalTransition
from windlass.store.operations import Call

Make = Callable[[Driver, RunRef, str | None], Call[Any]]

# What each verb of an operator does, to a run of this status, and what the log has of it.
VERBS: Mapping[str, tuple[Status, Make, str | None, Mapping[str, Any] | None]] = {
    "cancel": (
        Status.QUEUED, lambda d, run, by: d.ops.cancel(run, "why", by=by), "why", None,
    ),
    "pause": (
        Status.RUNNING, lambda d, run, by: d.ops.pause(run, "why", by=by), "why", None,
    ),
    "resume": (Status.PAUSED, lambda d, run, by: d.ops.resume(run, by=by), None, None),
    "terminate": (
        Status.RUNNING, lambda d, run, by: d.ops.terminate(run, "why", by=by), "why", None,
    ),
    "restart": (Status.FAILED, lambda d, run, by: d.ops.restart(run, None, by=by), None, None),
    "retry": (
        Status.FAILED, lambda d, run, by: d.ops.retry(run, None, raw({"n": 2}), by=by), None,
        {"changed": ["input"]},
    ),
    "reprioritize": (
        Status.QUEUED, lambda d, run, by: d.ops.reprioritize(run, priority=7, by=by), None,
        {"priority": 7},
    ),
    "change": (
        Status.QUEUED, lambda d, run, by: d.ops.change(run, Changes(tags=("a",)), by=by), None,
        {"changed": ["tags"]},
    ),
    "discard": (
        Status.FAILED, lambda d, run, by: d.ops.discard(run.tenant, [run.id], by=by), None, None,
    ),
    "signal": (
        Status.WAITING, lambda d, run, by: d.ops.signal(run, "go", raw(1), None, by=by), None,
        {"name": "go"},
    ),
}  # fmt: skip


def log_of(drive: Driver, **which: Any) -> list[AuditEntry]:
    return list(drive.call(drive.ops.list_audit("default", **which)))


@pytest.mark.parametrize("verb", VERBS)
def test_what_an_operator_does_is_noted(drive: Driver, verb: str) -> None:
    status, make, reason, detail = VERBS[verb]
    run = drive.bring(status)
    before = log_of(drive)

    drive.call(make(drive, run, "ann"))

    entry, *older = log_of(drive)
    assert older == before
    assert (entry.actor, entry.verb, entry.kind, entry.subject) == ("ann", verb, "run", run.id)
    assert (entry.reason, entry.detail, entry.at) == (reason, detail, drive.now)
    assert log_of(drive, subject=run.id)[0] == entry


def test_every_verb_for_many_runs_is_noted(drive: Driver) -> None:
    assert set(BULK_VERBS) - {"reschedule"} <= set(VERBS)
    runs = [drive.add(), drive.add()]
    arguments = {"reason": "enough", "by": "ann"}

    drive.call(drive.ops.apply_to_many("cancel", "default", [run.id for run in runs], arguments))

    entries = log_of(drive, actor="ann")
    assert {entry.subject for entry in entries} == {run.id for run in runs}
    assert {(entry.verb, entry.reason) for entry in entries} == {("cancel", "enough")}


def test_a_reschedule_is_noted_with_its_time(drive: Driver) -> None:
    run = drive.bring(Status.SCHEDULED)
    drive.call(drive.ops.reschedule(run, delay=90.0, by="ann"))
    (entry,) = log_of(drive, subject=run.id)
    assert entry.detail is not None
    assert entry.verb == "reschedule"
    assert entry.detail["at"].startswith(f"{drive.later(90.0):%Y-%m-%dT%H:%M:%S}")


def test_what_is_refused_is_not_noted(drive: Driver) -> None:
    run = drive.bring(Status.SUCCEEDED)
    with pytest.raises(IllegalTransition):
        drive.call(drive.ops.pause(run, None, by="ann"))
    answers = drive.call(
        drive.ops.apply_to_many("pause", "default", [run.id], {"reason": None, "by": "ann"})
    )
    assert answers[0].error is not None
    assert log_of(drive, subject=run.id) == []


def test_a_child_that_its_parent_ends_is_not_noted(drive: Driver) -> None:
    parent = drive.start()
    start(drive, parent, 1)
    (child,) = refs(parent, children_of(drive, parent))
    drive.call(drive.ops.cancel(parent.ref, None, by="ann"))
    drive.finish(parent, Outcome.RELEASED)
    drive.sweep(dispatch=True)
    assert drive.get(child).status is Status.CANCELED
    assert [entry.subject for entry in log_of(drive)] == [parent.id]


def test_a_run_remembers_who_asked_for_it(drive: Driver) -> None:
    run = drive.add(options=Options(asked_by="ann"))
    options = drive.get(run).options
    assert options is not None
    assert options.asked_by == "ann"
    claimed = drive.take(run)
    assert claimed.options == options


def test_the_log_is_read_in_pages(drive: Driver) -> None:
    run = drive.add()
    for n in range(5):
        drive.call(drive.ops.reprioritize(run, priority=n, by="ann" if n % 2 else "bob"))

    newest = log_of(drive, limit=2)
    older = log_of(drive, before=newest[-1].number, limit=10)

    assert [entry.detail for entry in (*newest, *older)] == [
        {"priority": n} for n in (4, 3, 2, 1, 0)
    ]
    assert {entry.actor for entry in log_of(drive, actor="bob")} == {"bob"}
    assert len(log_of(drive, subject=run.id, actor="ann")) == 2
    assert log_of(drive, subject="nobody") == []
    assert drive.call(drive.ops.list_audit("stranger")) == []
