"""Enqueue, packed for and unpacked from ``windlass.enqueue`` and its relatives."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from windlass.domain.run import Enqueued, NewRun
from windlass.domain.states import Status
from windlass.errors import UsageError
from windlass.store.postgres.instants import instant
from windlass.store.postgres.literals import json_array, plain_array, text_array

# A value of PostgreSQL's has less than a gibibyte, and packing an input may double its size.
MOST_BYTES = 400 * 1024**2

_encode = msgspec.json.Encoder().encode


class _Existing(msgspec.Struct):
    n: int
    run: str
    status: Status
    created_at: datetime
    scheduled_for: datetime


class _EnqueueReply(msgspec.Struct):
    now: datetime
    existing: list[_Existing] | None = None
    hinted: bool = False


def pack_one(run: NewRun) -> tuple[object, ...]:
    """The arguments of ``windlass.enqueue``."""
    return (
        run.job,
        bytes(run.input).decode(),
        run.id,
        run.tenant,
        run.queue,
        run.priority,
        run.delay,
        run.at,
        run.key,
        run.key_ttl,
        text_array(run.tags) if run.tags else None,
        run.expires_in,
        run.expires_at,
        run.deadline_in,
        run.deadline_at,
        None if run.options is None else _encode(run.options).decode(),
        run.job_version,
        run.trace,
        None if run.metadata is None else bytes(run.metadata).decode(),
        run.enqueued_by,
    )


def unpack_one(rows: Sequence[tuple[Any, ...]]) -> Sequence[Enqueued]:
    """The row of ``windlass.enqueue``, all of it text."""
    run, created, status, created_at, scheduled_for = rows[0][:5]
    return [
        Enqueued(
            id=run,
            created=created == "true",
            status=Status(status),
            created_at=instant(created_at),
            scheduled_for=instant(scheduled_for),
        )
    ]


def are_plain(runs: Sequence[NewRun]) -> bool:
    """Whether runs have nothing but what ``windlass.enqueue_plain`` takes, and no gaps in it.

    A null in the text of an array is the word NULL where array_nulls is off.
    """
    common = {(run.job_version is None, run.trace, run.enqueued_by) for run in runs}
    return len(common) == 1 and all(map(_is_plain, runs))


def _is_plain(run: NewRun) -> bool:
    return (
        run.key is None
        and run.delay is None
        and run.at is None
        and not run.tags
        and run.options is None
        and run.expires_in is None
        and run.expires_at is None
        and run.deadline_in is None
        and run.deadline_at is None
        and run.metadata is None
        and not run.after
    )


def pack_plain_one(run: NewRun) -> tuple[object, ...]:
    """The arguments of ``windlass.enqueue_one``, without a hint."""
    text = bytes(run.input).decode()
    return (
        run.tenant, run.id, run.job, run.job_version, run.queue, run.priority, text, run.trace,
        run.enqueued_by, False,
    )  # fmt: skip


def pack_plain(runs: Sequence[NewRun]) -> tuple[object, ...]:
    """The arguments of ``windlass.enqueue_plain``."""
    _check_size(runs)
    return (
        text_array([run.tenant for run in runs]),
        plain_array([run.id for run in runs]),
        text_array([run.job for run in runs]),
        text_array([v for v in (run.job_version for run in runs) if v is not None]),
        text_array([run.queue for run in runs]),
        plain_array([run.priority for run in runs]),
        json_array([run.input for run in runs]),
        runs[0].trace,
        runs[0].enqueued_by,
    )


def pack_batch(runs: Sequence[NewRun]) -> tuple[object, ...]:
    """The arguments of ``windlass.enqueue_many``."""
    _check_size(runs)
    return (_encode(runs).decode(), any(run.key is not None for run in runs))


def _check_size(runs: Sequence[NewRun]) -> None:
    size = sum([len(run.input) for run in runs])
    if size > MOST_BYTES:
        raise UsageError(
            f"The inputs of this batch have {size / 1024**2:,.0f} MiB and one call can take "
            f"{MOST_BYTES / 1024**2:,.0f} MiB: enqueue fewer runs at once."
        )


def unpack_batch(runs: Sequence[NewRun], text: str) -> Sequence[Enqueued]:
    """The answers to a batch, in its order; the function names only those that made no run."""
    reply = msgspec.json.decode(text, type=_EnqueueReply)
    existing = {item.n: item for item in reply.existing or ()}
    return [_answer(run, existing.get(n), reply) for n, run in enumerate(runs, start=1)]


def _answer(run: NewRun, existing: _Existing | None, reply: _EnqueueReply) -> Enqueued:
    if existing is not None:
        return Enqueued(
            id=existing.run,
            created=False,
            status=existing.status,
            created_at=existing.created_at.astimezone(UTC),  # written in the session's zone
            scheduled_for=existing.scheduled_for.astimezone(UTC),
        )
    now = due = reply.now
    if run.at is not None:
        due = max(now, run.at)
    elif run.delay:
        due = now + timedelta(seconds=run.delay)
    return Enqueued(
        id=run.id,
        created=True,
        status=Status.SCHEDULED if due > now or run.after else Status.QUEUED,
        created_at=now,
        scheduled_for=due,
        hinted=reply.hinted,
    )
