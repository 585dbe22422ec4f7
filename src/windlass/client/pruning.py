"""`app.prune`: delete runs that ended long ago by hand, and not when their time comes."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial

import msgspec

from windlass.artifacts.flows import Outside
from windlass.client.ids import check_id
from windlass.client.scope import Scope
from windlass.domain.job import check_name
from windlass.domain.listing import FoundIds, RunFilter
from windlass.domain.open_enum import member_of
from windlass.domain.retention import Pruned, terms_of
from windlass.domain.run import JobRecord, RunRecord, RunRef
from windlass.domain.states import FINISHED, Status
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, RunNotFound
from windlass.store.flow import Flow

AT_ONCE = 200  # runs in a transaction


def prune(
    scope: Scope,
    older_than: Duration | None,
    status: Status | str | Iterable[Status | str] | None,
    job: str | None,
    dry_run: bool,
) -> Flow[Pruned]:
    """Delete what has ended so long ago, the newest ids first: children go before their parents."""
    name = None if job is None else check_name("job", job)
    ages = list(_ages(scope, older_than, status))
    deleted = kept = 0
    for wanted, age in ages:
        before = scope.ground.sources.now() - timedelta(seconds=age)
        query = RunFilter(
            tenant=scope.tenant, status=wanted, job=name, finished_to=before, limit=AT_ONCE
        )
        while True:
            found: FoundIds = yield scope.store.operations.find_runs(query)
            if found.ids and not dry_run:
                call = scope.store.operations.delete_runs(scope.tenant, found.ids)
                done: Pruned = yield call
                deleted, kept = deleted + done.deleted, kept + done.kept
                for location in done.locations:
                    yield Outside(partial(scope.ground.shelf.remove, location))
            elif dry_run:
                deleted += len(found.ids)
            if found.next is None:
                break
            query = msgspec.structs.replace(query, before=found.next)
    return Pruned(deleted=deleted, kept=kept)


def _ages(
    scope: Scope,
    older_than: Duration | None,
    status: Status | str | Iterable[Status | str] | None,
) -> Iterator[tuple[Status, float]]:
    """The statuses that are meant, and how long ago their runs must have ended."""
    given = None if older_than is None else parse_duration(older_than)
    for wanted in _statuses(status):
        settings = scope.ground.settings.delete_after
        age = getattr(settings, wanted.value) if given is None else given
        if age is not None:
            yield wanted, age


def _statuses(status: Status | str | Iterable[Status | str] | None) -> list[Status]:
    if status is None:
        return sorted(FINISHED)
    given = [status] if isinstance(status, str) else status
    wanted = [member_of("status", Status, one) for one in given]
    for one in wanted:
        if one not in FINISHED:
            raise BadOption("status", f"{one.value} runs have not ended: they are never deleted")
    return wanted


def deletes_at(scope: Scope, run: str) -> Flow[datetime | None]:
    """When a run is to be deleted at the earliest; None: never, or it has not ended."""
    record: RunRecord | None = yield scope.store.operations.get_run(
        RunRef(scope.tenant, check_id(run))
    )
    if record is None:
        raise RunNotFound(run)
    if record.finished_at is None:
        return None
    row: JobRecord | None = yield scope.store.operations.get_job(record.tenant, record.job)
    kept = terms_of(scope.ground.settings).runs
    if row is not None and row.retention is not None:
        kept = row.retention
    age = getattr(kept.delete, record.status.value, None)
    return None if age is None else record.finished_at + timedelta(seconds=age)
