"""What callers say about runs, checked: ids, filters of listings, reasons."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypedDict

from windlass.client.requests import check_instant
from windlass.domain.counts import By
from windlass.domain.job import check_max_attempts, check_text
from windlass.domain.open_enum import member_of
from windlass.domain.run import RunFilter
from windlass.domain.states import Failure, Status
from windlass.errors import BadOption, RunNotFound

MOST_PER_PAGE = 1000
_LONGEST_NAME = 200
_LONGEST_REASON = 10_000


class ListOptions(TypedDict, total=False):
    """What a listing may be narrowed by."""

    status: Status | str
    job: str
    queue: str
    tag: str
    failure: Failure | str
    created_from: datetime
    created_to: datetime
    dead: bool
    before: str
    limit: int


def read_filter(tenant: str, query: ListOptions) -> RunFilter:
    """A listing's options as the store takes them; raises BadOption."""
    given: dict[str, Any] = {}
    for name, value in query.items():
        reader = _LIST_READERS.get(name)
        if reader is None:
            raise BadOption(name, f"there is no such filter; there are {', '.join(_LIST_READERS)}")
        if value is not None:
            given[name] = reader(name, value)
    return RunFilter(tenant=tenant, **given)


def check_reason(reason: str | None) -> str | None:
    """Why something is asked for, if that was said."""
    if not reason:
        return None
    given: object = reason  # callers without a type checker pass anything
    if not isinstance(given, str):
        raise BadOption("reason", f"it must be text, not {type(given).__name__}")
    return check_text("reason", given, _LONGEST_REASON)


def check_budget(max_attempts: int | None) -> int | None:
    """How many attempts a reopened run gets, if that was said."""
    return None if max_attempts is None else check_max_attempts(max_attempts)


def check_id(run: object) -> str:
    """An id as the stores know it; what cannot be one is not found, alike on both."""
    text = run.strip().lower() if isinstance(run, str) else ""
    digits = text.replace("-", "")
    if len(digits) != 32 or any(c not in "0123456789abcdef" for c in digits):
        raise RunNotFound(str(run)[:100])
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


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


_LIST_READERS: dict[str, Callable[[str, Any], Any]] = {
    "status": lambda option, value: member_of(option, Status, value),
    "job": _name,
    "queue": _name,
    "tag": _name,
    "failure": lambda option, value: member_of(option, Failure, value),
    "created_from": check_instant,
    "created_to": check_instant,
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
