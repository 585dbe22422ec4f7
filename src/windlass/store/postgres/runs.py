"""Making and reading runs, on PostgreSQL: see `store/operations/runs.py`."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from windlass.domain.listing import FoundIds, RunFilter, RunPage
from windlass.domain.run import (
    Attempt,
    Backlog,
    Enqueued,
    Event,
    FeedEvent,
    NewRun,
    RunRecord,
    RunRef,
)
from windlass.errors import BadOption
from windlass.store.mending import read_row
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
from windlass.store.postgres.statement import Row, Statement, every, first, one, value

_PLACE = re.compile(r"[0-9]{1,9}(:[0-9]{1,18}){3}")  # era, transaction, page, place in the page


def enqueue(runs: Sequence[NewRun], *, patient: bool) -> Statement[Sequence[Enqueued]]:
    """Insert runs; one alone, and those without options, take shorter ways."""
    check_new(runs)
    alone = len(runs) == 1
    if are_plain(runs):
        name = "enqueue_one" if alone else "enqueue_plain"
        arguments = pack_plain_one(runs[0]) if alone else pack_plain(runs)
    elif alone and not runs[0].after and (patient or runs[0].key is None):
        return Statement("enqueue", pack_one(runs[0]), unpack_one)
    else:
        name, arguments = "enqueue_many", (*pack_batch(runs), patient)
    hints = name == "enqueue_one"
    return Statement(name, arguments, lambda rows: unpack_batch(runs, rows[0][0]), hints=hints)


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


def look_for_ends(tenant: str, ids: Sequence[str]) -> Statement[Mapping[str, bool]]:
    """Which of several runs have ended."""
    parameters = (tenant, plain_array(only_ids(ids)))
    return Statement("look_for_ends", parameters, lambda rows: {r[0]: r[1] == "true" for r in rows})


def list_runs(query: RunFilter) -> Statement[RunPage]:
    """A page of runs."""
    return Statement("list_runs", (_packed(query),), _read_page)


def find_runs(query: RunFilter) -> Statement[FoundIds]:
    """The ids of such a page."""

    def read(rows: Sequence[Row]) -> FoundIds:
        ((ids, following),) = rows
        return FoundIds(tuple(ids.split(",")) if ids else (), following)

    return Statement("find_runs", (_packed(query),), read)


def ids_between(tenant: str, first: str, last: str, limit: int) -> Statement[Sequence[str]]:
    """Ids of runs from one to another."""
    parameters = (tenant, id_or_nobody(first), id_or_nobody(last), limit)
    return Statement("ids_between", parameters, lambda rows: [text for (text,) in rows])


def _packed(query: RunFilter) -> str:
    """A filter as the function takes it: the statuses that may match, and ids that are some."""
    statuses = query.statuses
    given = msgspec.to_builtins(query) | {
        "statuses": None if statuses is None else sorted(statuses),
        "before": None if query.before is None else id_or_nobody(query.before),
        "schedule": None if query.schedule is None else id_or_nobody(query.schedule),
        "tenant": query.tenant,
        "limit": query.limit,
    }
    return msgspec.json.encode(given).decode()


def _read_page(rows: Sequence[Row]) -> RunPage:
    records = [read_row(document, RunRecord) for document, _ in rows if document is not None]
    return RunPage(records, rows[0][1])


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
