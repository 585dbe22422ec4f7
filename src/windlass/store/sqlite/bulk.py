"""A verb for many runs, in one transaction: see `client/bulk.py`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from windlass.domain.bulk import BULK_VERBS, Applied
from windlass.domain.run import RunRecord, RunRef
from windlass.domain.states import Intent, Status
from windlass.errors import ConflictError, IllegalTransition, NotFound, RunNotFound
from windlass.store.sqlite import changing, control
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.runs import get_run


def apply_to_many(
    tx: OpenTransaction, verb: str, tenant: str, runs: Sequence[str], arguments: Mapping[str, Any]
) -> Sequence[Applied]:
    """Apply a verb to each run, in a savepoint of its own."""
    act = _act(BULK_VERBS[verb].name)
    answers = []
    for run in sorted(set(runs)):
        try:
            with tx.savepoint():
                record = act(tx, RunRef(tenant, run), **arguments)
        except (ConflictError, NotFound) as error:
            answers.append(Applied(run, error=error))
        else:
            answers.append(Applied(run, record.status))
    return answers


def _act(verb: str) -> Callable[..., RunRecord]:
    """What does a verb to one run: the operation of its name."""
    if verb == "discard":
        return _discard
    if verb == "change":
        return changing.change
    if verb == "resume":
        return _resume
    act: Callable[..., RunRecord] = getattr(control, verb)
    return act


def _resume(tx: OpenTransaction, run: RunRef, by: str | None = None) -> RunRecord:
    """Of those that run only what was asked to pause is meant."""
    record = get_run(tx, run)
    if record is not None and record.status is Status.RUNNING and record.intent != Intent.PAUSE:
        raise IllegalTransition(run.id, record.status, "resume")
    return control.resume(tx, run, by=by)


def _discard(tx: OpenTransaction, run: RunRef, by: str | None = None) -> RunRecord:
    """The operation for one run takes several, and only counts those that it was applied to."""
    count = control.discard(tx, run.tenant, [run.id], by=by)
    record = get_run(tx, run)
    if record is None:
        raise RunNotFound(run.id)
    if not count:
        status = "discarded" if record.discarded_at is not None else record.status.value
        raise IllegalTransition(run.id, status, "discard")
    return record
