"""What is to be enqueued, checked before anything is written."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

import msgspec

from windlass.domain.job import (
    DEFAULT_QUEUE,
    check_key,
    check_max_attempts,
    check_name,
    check_priority,
    check_text,
    check_timeout,
)
from windlass.domain.run import NewRun, Options
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption

MOST_TAGS = 100
_LONGEST_TAG = 200
_TOO_LATE = datetime(9999, 12, 31, tzinfo=UTC)


class UsingOptions(TypedDict, total=False):
    """What one run may override: the arguments of ``using``.

    ``connection`` is the caller's transaction: the run exists if and only if that commits.
    """

    delay: Duration
    at: datetime
    priority: int
    key: str
    key_ttl: Duration
    queue: str
    tags: Iterable[str]
    expires: Duration | datetime
    deadline: Duration | datetime
    max_attempts: int
    timeout: Duration
    connection: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Using:
    """Checked options of one run."""

    delay: float | None = None
    at: datetime | None = None
    priority: int | None = None
    key: str | None = None
    key_ttl: float | None = None
    queue: str | None = None
    tags: tuple[str, ...] = ()
    expires_in: float | None = None
    expires_at: datetime | None = None
    deadline_in: float | None = None
    deadline_at: datetime | None = None
    options: Options | None = None
    connection: object = field(default=None, compare=False, repr=False)
    """The caller's transaction, in which the run is to be enqueued."""

    def with_(self, **given: Unpack[UsingOptions]) -> "Using":
        """The same with some options set; raises BadOption or BadDuration."""
        changes: dict[str, Any] = {}
        for name, value in given.items():
            reader = _READERS.get(name)
            if reader is None:
                raise BadOption(name, f"there is no such option; there are {', '.join(_READERS)}")
            changes.update(reader(value))
        own = {n: changes.pop(n) for n in ("max_attempts", "timeout") if n in changes}
        if own:
            before = self.options or Options()
            merged = {"max_attempts": before.max_attempts, "timeout": before.timeout, **own}
            changes["options"] = Options(**merged)
        using = replace(self, **changes)
        if using.delay is not None and using.at is not None:
            raise BadOption("delay", "give either delay or at, not both")
        if using.key_ttl is not None and using.key is None:
            raise BadOption("key_ttl", "it needs a key")
        return using


PLAIN = Using()
"""No options. There is one such value, so that it is known by its identity."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be made: `job.request(...)` makes one, `app.enqueue_many` enqueues them."""

    job: str
    queue: str
    priority: int
    input: bytes
    using: Using
    job_version: str | None = None

    @classmethod
    def of_nothing(cls, job: str) -> "Request":
        """One of a job of which nothing is known yet."""
        return cls(job=job, queue=DEFAULT_QUEUE, priority=0, input=b"{}", using=PLAIN)

    def within(self, connection: object) -> "Request":
        """The same, to be enqueued in the caller's transaction."""
        return msgspec.structs.replace(self, using=replace(self.using, connection=connection))

    def new_run(self, run: str, tenant: str) -> NewRun:
        """The request as the store takes it, under an id of its own."""
        using = self.using
        if using is PLAIN:  # nearly always where runs are made by the thousand
            return NewRun(
                id=run,
                tenant=tenant,
                job=self.job,
                job_version=self.job_version,
                queue=self.queue,
                priority=self.priority,
                input=msgspec.Raw(self.input),
            )
        return NewRun(
            id=run,
            tenant=tenant,
            job=self.job,
            job_version=self.job_version,
            queue=using.queue or self.queue,
            priority=self.priority if using.priority is None else using.priority,
            input=msgspec.Raw(self.input),
            options=using.options,
            key=using.key,
            key_ttl=using.key_ttl,
            tags=using.tags,
            delay=using.delay,
            at=using.at,
            expires_in=using.expires_in,
            expires_at=using.expires_at,
            deadline_in=using.deadline_in,
            deadline_at=using.deadline_at,
        )


class Chosen(TypedDict, total=False):
    """When a run is to start, as the store takes it: one of the two."""

    at: datetime
    delay: float


def check_time(at: datetime | None, delay: Duration | None) -> Chosen:
    """Either an instant or a delay, checked as those of ``using`` are."""
    given: UsingOptions = {}
    if at is not None:
        given["at"] = at
    if delay is not None:
        given["delay"] = delay
    using = Using().with_(**given)
    if using.at is not None:
        return {"at": using.at}
    if using.delay is not None:
        return {"delay": using.delay}
    raise BadOption("at", "give either at, a datetime, or delay, a duration")


def shared_connection(requests: Sequence[Request]) -> object:
    """The transaction that these are to be enqueued in; None: in one of their own."""
    connection = requests[0].using.connection
    for request in requests:
        if request.using.connection is not connection:
            why = "requests that are enqueued together must have the same one, or none"
            raise BadOption("connection", why)
    return connection


def _delay(value: Any) -> dict[str, Any]:
    return {"delay": parse_duration(value)}


def _at(value: Any) -> dict[str, Any]:
    return {"at": _check_moment("at", value)}


def _until(option: str, value: Any) -> dict[str, Any]:
    """A duration or an instant; the one given last counts."""
    if isinstance(value, datetime):
        return {f"{option}_at": _check_moment(option, value), f"{option}_in": None}
    return {f"{option}_in": parse_duration(value), f"{option}_at": None}


def _tags(value: Any) -> dict[str, Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadOption("tags", f"{value!r} is not a list of texts")
    tags = tuple(dict.fromkeys(check_text("tags", tag, _LONGEST_TAG) for tag in value))
    if len(tags) > MOST_TAGS:
        raise BadOption("tags", f"{len(tags)} are more than {MOST_TAGS}")
    return {"tags": tags}


def _check_moment(option: str, value: object) -> datetime:
    """One that is stored, and that any client can read in its own zone."""
    instant = check_instant(option, value)
    if instant >= _TOO_LATE:
        raise BadOption(option, f"{instant.isoformat()} is too late: the last day is 9999-12-30")
    return instant


def check_instant(option: str, value: object) -> datetime:
    """A moment that everybody reads alike."""
    if not isinstance(value, datetime):
        raise BadOption(option, f"{value!r} is not a datetime")
    if value.tzinfo is None or value.utcoffset() is None:
        raise BadOption(option, f"{value!r} has no time zone: say which, e.g. tzinfo=UTC")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise BadOption(option, f"{value!r} is out of range") from None


_READERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "delay": _delay,
    "at": _at,
    "priority": lambda value: {"priority": check_priority(value)},
    "key": lambda value: {"key": check_key(value)},
    "key_ttl": lambda value: {"key_ttl": parse_duration(value)},
    "queue": lambda value: {"queue": check_name("queue", value)},
    "tags": _tags,
    "expires": lambda value: _until("expires", value),
    "deadline": lambda value: _until("deadline", value),
    "max_attempts": lambda value: {"max_attempts": check_max_attempts(value)},
    "timeout": lambda value: {"timeout": check_timeout(value)},
    "connection": lambda value: {"connection": value},  # the store knows which it can use
}
