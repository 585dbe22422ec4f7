"""Making and reading runs, on PostgreSQL: see `store/operations/runs.py`."""

import re
from collections.abc import Sequence

from windlass.domain.run import (
    Attempt,
    Backlog,
    Enqueued,
    Event,
    FeedEvent,
    NewRun,
    RunFilter,
    RunRecord,
    RunRef,
)
from windlass.errors import BadOption
from windlass.store.postgres.ids import check_new, id_or_nobody, only_ids
from windlass.store.postgres.literals import plain_array, text_array_or_none
from windlass.store.postgres.new_runs import (
    are_plain,
    pack_batch,
    pack_one,
    pack_plain,
    pack_plain_one,
    unpack_batch,
    unpack_one,
)
from windlass.store.postgres.statement import Statement, every, first, one, value

_PLACE = re.compile(r"[0-9]{1,9}(:[0-9]{1,18}){3}")  # era, transaction, page, place in the page


def enqueue(runs: Sequence[NewRun], *, patient: bool) -> Statement[Sequence[Enqueued]]:
    """Insert runs; one alone, and those without options, take shorter ways."""
    check_new(runs)
    alone = len(runs) == 1
    if are_plain(runs):
        name = "enqueue_one" if alone else "enqueue_plain"
        arguments = pack_plain_one(runs[0]) if alone else pack_plain(runs)
    elif alone and (patient or runs[0].key is None):
        return Statement("enqueue", pack_one(runs[0]), unpack_one)
    else:
        name, arguments = "enqueue_many", (*pack_batch(runs), patient)
    return Statement(name, arguments, lambda rows: unpack_batch(runs, rows[0][0]))


def get_run(run: RunRef) -> Statement[RunRecord | None]:
    """One run."""
    return Statement("get_runs", (run.tenant, plain_array(only_ids([run.id]))), first(RunRecord))


def has_ended(run: RunRef) -> Statement[bool | None]:
    """Whether a run has ended."""
    name = (run.tenant, id_or_nobody(run.id))
    return Statement("has_ended", name, value)


def get_runs(tenant: str, ids: Sequence[str]) -> Statement[Sequence[RunRecord]]:
    """Several runs."""
    return Statement("get_runs", (tenant, plain_array(only_ids(ids))), every(RunRecord))


def list_runs(query: RunFilter) -> Statement[Sequence[RunRecord]]:
    """A page of runs."""
    parameters = (
        query.tenant,
        query.status,
        query.job,
        query.queue,
        query.tag,
        query.failure,
        query.dead,
        query.created_from,
        query.created_to,
        None if query.before is None else id_or_nobody(query.before),
        query.limit,
    )
    return Statement("list_runs", parameters, every(RunRecord))


def list_attempts(run: RunRef, before: int | None, limit: int) -> Statement[Sequence[Attempt]]:
    """A run's ended attempts."""
    parameters = (run.tenant, id_or_nobody(run.id), before, limit)
    return Statement("list_attempts", parameters, every(Attempt))


def list_events(run: RunRef, after: int, limit: int) -> Statement[Sequence[Event]]:
    """A run's events."""
    parameters = (run.tenant, id_or_nobody(run.id), after, limit)
    return Statement("list_events", parameters, every(Event))


def list_feed(after: str | None, limit: int) -> Statement[Sequence[FeedEvent]]:
    """Events of all subjects."""
    if after is not None and _PLACE.fullmatch(after) is None:
        raise BadOption("after", f"{after!r} is not a place in the feed of this store")
    return Statement("list_feed", (after, limit), every(FeedEvent))


def backlog(queues: Sequence[str] | None, jobs: Sequence[str] | None) -> Statement[Backlog]:
    """What is left to do."""
    parameters = (text_array_or_none(queues), text_array_or_none(jobs))
    return Statement("backlog", parameters, one(Backlog))
