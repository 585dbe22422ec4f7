"""Enqueue: records, their first position and page; keys that make a repeat harmless."""

from collections.abc import Callable, Sequence
from itertools import chain, islice

import apsw
import msgspec

from windlass.domain.run import Enqueued, NewRun
from windlass.domain.states import Status
from windlass.errors import BadArguments
from windlass.store.sqlite.followers import hold_followers
from windlass.store.sqlite.keys import Known
from windlass.store.sqlite.new_runs import Batch
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.values import from_micros, to_id

_FEW = 8  # runs that are enqueued by one statement: more of them are quicker in a transaction

Name = tuple[str, bytes]
"""A run's tenant and id."""

_NO_LENGTHS = (None, None, None, None)


def enqueue(
    tx: OpenTransaction, runs: Sequence[NewRun], *, patient: bool = True
) -> Sequence[Enqueued]:
    """Insert runs, all or none; answer in the order given."""
    _check_all_lengths(runs)
    if any(run.after for run in runs):
        return _insert_followers(tx, runs)
    return _insert(tx, runs)


def _insert(tx: OpenTransaction, runs: Sequence[NewRun]) -> Sequence[Enqueued]:
    if not any(run.key is not None for run in runs):
        try:
            return _insert_all(tx, runs)
        except apsw.ConstraintError:
            pass  # an id is known already, in the store or in this batch: look at each
    return _insert_unknown(tx, runs)


def _insert_followers(tx: OpenTransaction, runs: Sequence[NewRun]) -> Sequence[Enqueued]:
    """Insert runs of which some come after others: those are held."""
    with tx.savepoint():
        answers = _insert(tx, runs)
        hold_followers(tx, runs, [answer.created for answer in answers])
    return [
        msgspec.structs.replace(answer, status=Status.SCHEDULED)
        if run.after and answer.created
        else answer
        for run, answer in zip(runs, answers, strict=True)
    ]


def enqueue_at_once(
    tx: OpenTransaction, runs: Sequence[NewRun], *, patient: bool = True
) -> Callable[[], Sequence[Enqueued]] | None:
    """As :func:`enqueue`, by one statement; None if that is not possible: nothing was done."""
    if len(runs) > _FEW or any(run.key is not None or run.after for run in runs):
        return None
    _check_all_lengths(runs)
    batch = Batch(tx)
    answers = [batch.add(run) for run in runs]
    try:
        batch.write_at_once()
    except apsw.ConstraintError:
        return None  # an id is known already
    return lambda: answers


def enqueue_together(
    tx: OpenTransaction, batches: Sequence[Sequence[NewRun]]
) -> Sequence[Sequence[Enqueued]]:
    """Enqueue several batches as one, all or none; answer for each of them."""
    return _dealt(enqueue(tx, list(chain(*batches))), batches)


def enqueue_together_at_once(
    tx: OpenTransaction, batches: Sequence[Sequence[NewRun]]
) -> Callable[[], Sequence[Sequence[Enqueued]]] | None:
    """As :func:`enqueue_together`, by one statement, if that is possible."""
    answer = enqueue_at_once(tx, list(chain(*batches)))
    return None if answer is None else lambda: _dealt(answer(), batches)


def _dealt(
    answers: Sequence[Enqueued], batches: Sequence[Sequence[NewRun]]
) -> Sequence[Sequence[Enqueued]]:
    left = iter(answers)
    return [list(islice(left, len(batch))) for batch in batches]


def _insert_all(tx: OpenTransaction, runs: Sequence[NewRun]) -> Sequence[Enqueued]:
    """Insert runs of which none is known; a ConstraintError leaves nothing behind."""
    batch = Batch(tx)
    answers = [batch.add(run) for run in runs]
    if len(runs) == 1:
        batch.write()  # its first statement is the one that can fail
    else:
        with tx.savepoint():
            batch.write()
    return answers


def _insert_unknown(tx: OpenTransaction, runs: Sequence[NewRun]) -> Sequence[Enqueued]:
    """Insert the runs whose id and key are free; answer with the run that exists for others."""
    batch = Batch(tx)
    known = Known(tx)
    answers: list[Enqueued | Name] = []
    for run in runs:
        owner = known.owner(run)
        answers.append(batch.add(run) if owner is None else (run.tenant, owner))
    batch.write()
    known.write()
    # An owner may have come earlier in this batch: it can be read once that is written.
    return [a if isinstance(a, Enqueued) else _existing(tx, a) for a in answers]


def _check_all_lengths(runs: Sequence[NewRun]) -> None:
    for run in runs:
        lengths = (run.delay, run.key_ttl, run.expires_in, run.deadline_in)
        if lengths != _NO_LENGTHS:
            _check_lengths(run)
        if run.key is None and run.frees_key:
            raise BadArguments(run.job, "was enqueued with unique, which needs a key", "unique")


def _check_lengths(run: NewRun) -> None:
    for name in ("delay", "key_ttl", "expires_in", "deadline_in"):
        seconds = getattr(run, name)
        if seconds is not None and not seconds >= 0:  # which also refuses NaN
            raise BadArguments(run.job, f"was enqueued with {name}={seconds}", name)


def _existing(tx: OpenTransaction, owner: Name) -> Enqueued:
    ((status, created_at, scheduled_for),) = tx.fetch("existing_run", owner)
    return Enqueued(
        id=to_id(owner[1]),
        created=False,
        status=Status(status),
        created_at=from_micros(created_at),
        scheduled_for=from_micros(scheduled_for),
    )
