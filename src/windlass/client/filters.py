"""What callers say about runs, checked: ids, filters of listings, reasons."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict

from windlass.client.ids import check_id as check_id
from windlass.client.requests import check_instant
from windlass.client.scope import Scope
from windlass.domain.counts import By
from windlass.domain.job import (
    check_key,
    check_max_attempts,
    check_name,
    check_priority,
    check_text,
)
from windlass.domain.listing import RunFilter
from windlass.domain.open_enum import member_of
from windlass.domain.scheduling.rows import ScheduleRef, ScheduleRow
from windlass.domain.states import Failure, Status
from windlass.errors import BadOption, RunNotFound, ScheduleNotFound
from windlass.store.flow import Flow

MOST_PER_PAGE = 1000
SHORTEST_PREFIX = 8  # ids that are made within a minute begin alike as far as this
_LONGEST_NAME = 200
_LONGEST_REASON = 10_000
_LONGEST_TYPE = 1_000


class Place(TypedDict):
    """Where a run waits; None: as before."""

    priority: int | None
    queue: str | None


class SelectOptions(TypedDict, total=False):
    """What runs may be selected by. All that is given must fit; what is None is not looked at."""

    status: Status | str | Iterable[Status | str]
    job: str
    queue: str
    tag: str
    key: str
    schedule: str
    worker: str
    failure: Failure | str
    error: str
    created_from: datetime
    created_to: datetime
    finished_from: datetime
    finished_to: datetime
    dead: bool


class ListOptions(SelectOptions, total=False):
    """What a page of a listing may be narrowed by."""

    before: str
    limit: int


def check_filters(query: Mapping[str, Any]) -> dict[str, Any]:
    """What a listing is narrowed by, checked; raises BadOption."""
    given: dict[str, Any] = {}
    for name, value in query.items():
        reader = _LIST_READERS.get(name)
        if reader is None:
            raise BadOption(name, f"there is no such filter; there are {', '.join(_LIST_READERS)}")
        if value is not None:
            given[name] = reader(name, value)
    return given


def make_filter(scope: Scope, given: Mapping[str, Any]) -> Flow[RunFilter]:
    """The same as the store takes it; raises ScheduleNotFound."""
    if "schedule" in given:
        given = {**given, "schedule": (yield from _schedule_id(scope, given["schedule"]))}
    return RunFilter(tenant=scope.tenant, **given)


def _schedule_id(scope: Scope, name: str) -> Flow[str]:
    """The id of a schedule by its key. An id stands for itself: its runs outlive the schedule."""
    ref = ScheduleRef(tenant=scope.tenant, key=name)
    row: ScheduleRow | None = yield scope.store.operations.get_schedule(ref)
    if row is not None:
        return row.id
    try:
        return check_id(name)
    except RunNotFound:
        raise ScheduleNotFound(name) from None


def check_reason(reason: str | None) -> str | None:
    """Why something is asked for, if that was said."""
    if not reason:
        return None
    given: object = reason  # callers without a type checker pass anything
    if not isinstance(given, str):
        raise BadOption("reason", f"it must be text, not {type(given).__name__}")
    return check_text("reason", given, _LONGEST_REASON)


def check_subject(
    run: str | None, queue: str | None, job: str | None
) -> tuple[str | None, str | None]:
    """What the audit log is asked about: the kind of it, and its id or name."""
    given = {"run": run, "queue": queue, "job": job}
    named = [(kind, subject) for kind, subject in given.items() if subject is not None]
    if len(named) > 1:
        raise BadOption(named[1][0], f"there is {named[0][0]} too: give one of run, queue and job")
    if not named:
        return None, None
    kind, subject = named[0]
    return kind, check_id(subject) if kind == "run" else check_name(kind, subject)


def check_budget(max_attempts: int | None) -> int | None:
    """How many attempts a reopened run gets, if that was said."""
    return None if max_attempts is None else check_max_attempts(max_attempts)


def check_place(priority: int | None, queue: str | None) -> Place:
    """Another priority, another queue, or both."""
    if priority is None and queue is None:
        raise BadOption("priority", "give a priority, a queue, or both")
    return {
        "priority": None if priority is None else check_priority(priority),
        "queue": None if queue is None else check_name("queue", queue),
    }


def check_prefix(text: object) -> tuple[str, str]:
    """The first and the last id that begin like this. Raises BadOption, RunNotFound."""
    digits = text.strip().lower().replace("-", "") if isinstance(text, str) else ""
    if not digits or len(digits) > 32 or any(c not in "0123456789abcdef" for c in digits):
        raise RunNotFound(str(text)[:100])
    if len(digits) < SHORTEST_PREFIX:
        raise BadOption(
            "run", f"{text!r} is too short: give at least {SHORTEST_PREFIX} digits of the id"
        )
    return check_id(digits.ljust(32, "0")), check_id(digits.ljust(32, "f"))


def _name(option: str, value: Any) -> str:
    return check_text(option, value, _LONGEST_NAME)


def _truth(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadOption(option, f"{value!r} is neither True nor False")
    return value


def check_page(option: str, value: Any) -> int:
    """How many rows a page may have."""
    good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_PER_PAGE
    if not good:
        raise BadOption(option, f"{value!r} is not a whole number from 1 to {MOST_PER_PAGE}")
    return int(value)


def _statuses(option: str, value: Any) -> tuple[Status, ...]:
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, Iterable):
        raise BadOption(option, f"{value!r} is neither a status nor several")
    found = tuple(member_of(option, Status, each) for each in several)
    if not found:
        raise BadOption(option, "give at least one status, or leave it out")
    return found


_LIST_READERS: dict[str, Callable[[str, Any], Any]] = {
    "status": _statuses,
    "job": _name,
    "queue": _name,
    "tag": _name,
    "key": lambda _, value: check_key(value),
    "schedule": lambda option, value: check_text(option, value, _LONGEST_NAME),
    "worker": _name,
    "failure": lambda option, value: member_of(option, Failure, value),
    "created_from": check_instant,
    "created_to": check_instant,
    "error": lambda option, value: check_text(option, value, _LONGEST_TYPE),
    "finished_from": check_instant,
    "finished_to": check_instant,
    "dead": _truth,
    "before": lambda _, value: check_id(value),
    "limit": check_page,
}


def check_by(given: str) -> By:
    """What runs are to be counted by."""
    try:
        return By(given)
    except ValueError:
        names = ", ".join(By)
        raise BadOption("by", f"{given!r} is none of {names}") from None
