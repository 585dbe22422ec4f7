"""Listings: pages of runs by what they are. How they walk is told in `domain/listing.py`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.domain.listing import (
    APART,
    GROWTH,
    MOST_LISTED,
    MOST_WALKED,
    FoundIds,
    RunFilter,
    RunPage,
)
from windlass.domain.states import Status
from windlass.store.sqlite.database_errors import damaged
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.runs import get_runs
from windlass.store.sqlite.values import (
    PAST_LAST_ID,
    blob_or_none,
    to_id,
    to_json,
    to_json_or_none,
    to_micros,
)

# Ids begin with the clock of whoever made them: a day of slack for clocks that are off.
_SLACK = 24 * 60 * 60 * 1_000_000


class _Walk(NamedTuple):
    """A statement that walks one index, and what of the filter that index says."""

    statement: str
    value: Any = None
    covers: frozenset[str] = frozenset()


_OF_STATUS = {
    Status.SCHEDULED: _Walk("walk_scheduled"),
    Status.WAITING: _Walk("walk_waiting"),
    Status.PAUSED: _Walk("walk_paused"),
    Status.QUEUED: _Walk("walk_queued"),
    Status.RUNNING: _Walk("walk_running"),
    Status.FAILED: _Walk("walk_failures", "failed"),
    Status.CANCELED: _Walk("walk_failures", "canceled"),
}


def list_runs(tx: OpenTransaction, query: RunFilter) -> RunPage:
    """Return a page of runs, newest id first."""
    found = find_runs(tx, query)
    records = get_runs(tx, query.tenant, found.ids)
    if len(records) != len(found.ids):  # on one snapshot: a page is never silently short
        missing = len(found.ids) - len(records)
        raise damaged(f"{missing} of {len(found.ids)} listed runs have no record")
    return RunPage(records, found.next)


def find_runs(tx: OpenTransaction, query: RunFilter) -> FoundIds:
    """Return the ids of such a page, newest first."""
    below, above = _bounds(query)
    walks = _walks(query)
    wanted = _wanted(tx, query, walks)
    limit = min(query.limit, MOST_LISTED)
    found: list[str] = []
    walked, size = 0, limit + 1  # one more tells whether there is more
    while below > above and walks:
        ids, floor = _walk(tx, query.tenant, walks, below, above, size)
        fit = ids if wanted is None else _fitting(tx, query.tenant, wanted, ids)
        walked += len(ids)
        found += fit[: limit - len(found)]
        if len(found) == limit and (floor is not None or found[-1] != ids[-1]):
            return _answer(found, found[-1])
        if floor is None:
            break
        if walked >= MOST_WALKED:
            return _answer(found, floor)
        below, size = bytes.fromhex(floor), min(size * GROWTH, MOST_WALKED - walked)
    return _answer(found, None)


def ids_between(
    tx: OpenTransaction, tenant: str, first: str, last: str, limit: int
) -> Sequence[str]:
    """Return the ids of runs from one to another, in order."""
    bindings = (tenant, blob_or_none(first), blob_or_none(last), limit)
    return [_text(found) for (found,) in tx.fetch("ids_between", bindings)]


def _answer(found: Sequence[str], floor: str | None) -> FoundIds:
    return FoundIds(tuple(map(_text, found)), None if floor is None else _text(floor))


def _text(digits: str) -> str:
    return to_id(bytes.fromhex(digits))


def _bounds(query: RunFilter) -> tuple[bytes, bytes]:
    """Between which ids the runs are; equal: there are none."""
    below = PAST_LAST_ID if query.before is None else blob_or_none(query.before) or b""
    # What ended before an instant was made before it.
    for end in (query.created_to, query.finished_to):
        if end is not None:
            below = min(below, _id_at(to_micros(end) + _SLACK))
    if query.created_from is None:
        return below, b""
    return below, _id_at(to_micros(query.created_from) - _SLACK)


def _walks(query: RunFilter) -> Sequence[_Walk]:
    """The indexes to be walked; several are walked at once. None: nothing can match."""
    statuses = query.statuses
    if statuses is not None and not statuses:
        return ()
    if query.key is not None:
        return [_Walk("walk_key", query.key, frozenset({"key"}))]
    if query.schedule is not None:
        blob = blob_or_none(query.schedule)
        return [_Walk("walk_schedule", blob, frozenset({"schedule"}))] if blob else ()
    if query.tag is not None:
        return [_Walk("walk_tag", query.tag, frozenset({"tag"}))]
    if statuses is not None and statuses <= APART:
        found = (_OF_STATUS.get(status) for status in sorted(statuses))
        return [walk._replace(covers=frozenset({"statuses"})) for walk in found if walk]
    if query.job is not None:
        return [_Walk("walk_job", query.job, frozenset({"job"}))]
    return [_Walk("walk_all")]


def _wanted(tx: OpenTransaction, query: RunFilter, walks: Sequence[_Walk]) -> dict[str, Any] | None:
    """What of the filter the walks do not say, for the statement that looks at each run."""
    statuses = query.statuses
    given = {
        "job": query.job,
        "queue": query.queue,
        "tag": query.tag,
        "key": query.key,
        "schedule": None if query.schedule is None else blob_or_none(query.schedule),
        "failure": query.failure,
        "error": query.error,
        "dead": query.dead,
        "workers": None if query.worker is None else _numbers(tx, query.worker),
        "statuses": to_json_or_none(None if statuses is None else sorted(statuses)),
        "created_from": _micros(query.created_from),
        "created_to": _micros(query.created_to),
        "finished_from": _micros(query.finished_from),
        "finished_to": _micros(query.finished_to),
    }
    covered = walks[0].covers if walks else frozenset()
    wanted = {name: None if name in covered else value for name, value in given.items()}
    is_narrower = any(value not in (None, False) for value in wanted.values())
    return wanted if is_narrower else None


def _numbers(tx: OpenTransaction, worker: str) -> str:
    return to_json([number for (number,) in tx.fetch("worker_numbers", (worker,))])


def _walk(
    tx: OpenTransaction,
    tenant: str,
    walks: Sequence[_Walk],
    below: bytes,
    above: bytes,
    size: int,
) -> tuple[list[str], str | None]:
    """The ids of the walks together, newest first, and down to which one all of them have come.

    None: to the end.
    """
    ids: list[str] = []
    floor = None
    for walk in walks:
        bounds = {"tenant": tenant, "below": below, "above": above, "most": size}
        part = [text for (text,) in tx.fetch(walk.statement, bounds | {"value": walk.value})]
        if len(part) == size:
            floor = max(floor or "", part[-1])
        ids += part
    if len(walks) > 1:
        ids = sorted((each for each in ids if each >= (floor or "")), reverse=True)
    return ids, floor


def _fitting(
    tx: OpenTransaction, tenant: str, wanted: dict[str, Any], ids: Sequence[str]
) -> list[str]:
    fit = {
        text for (text,) in tx.fetch("fitting", wanted | {"tenant": tenant, "ids": to_json(ids)})
    }
    return [each for each in ids if each in fit]


def _micros(moment: Any) -> int | None:
    return None if moment is None else to_micros(moment)


def _id_at(micros: int) -> bytes:
    """Return the smallest UUIDv7 of an instant, or what is before or after all ids."""
    millis = micros // 1000
    if millis >= 2**48:
        return PAST_LAST_ID
    return max(0, millis).to_bytes(6, "big") + bytes(10)
