"""What is to be enqueued, checked before anything is written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypedDict, Unpack

import msgspec

from windlass import codec
from windlass.acting import asker
from windlass.client.after import Identified, check_after
from windlass.client.typed import R_co
from windlass.current import Started, trace_of
from windlass.domain.follower import check_after_failure
from windlass.domain.job import (
    DEFAULT_QUEUE,
    check_key,
    check_max_attempts,
    check_name,
    check_priority,
    check_tags,
    check_text,
    check_timeout,
    check_unique,
)
from windlass.domain.returns import Returns
from windlass.domain.run import NewRun, Options, RunDefaults
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, UsageError

MOST_METADATA = 16 * 1024
_LONGEST_TRACE = 200
_TOO_LATE = datetime(9999, 12, 31, tzinfo=UTC)


class UsingOptions(TypedDict, total=False):
    """What one run may override: the arguments of ``using``.

    ``connection`` is the caller's transaction: the run exists if and only if that commits.
    ``after`` are the runs that have to end before: see `domain/follower.py`.
    """

    delay: Duration
    at: datetime
    priority: int
    key: str
    key_ttl: Duration | None
    unique: Literal["live"] | None
    queue: str
    tags: Iterable[str]
    expires: Duration | datetime | None
    deadline: Duration | datetime | None
    max_attempts: int
    timeout: Duration
    trace: str
    metadata: Mapping[str, Any]
    connection: object
    after: Identified | str | Iterable[Identified | str]
    after_failure: Literal["cancel", "run"]


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
    trace: str | None = None
    metadata: bytes | None = None
    connection: object = field(default=None, compare=False, repr=False)
    """The caller's transaction, in which the run is to be enqueued."""
    after: tuple[str, ...] = ()
    """The runs that have to end before this one may start."""
    after_failure: Literal["cancel", "run"] | None = None
    takes: str | None = None
    """The argument that is the result of the one run that it comes after."""
    default_unique: str | None = None
    """Of the job, for a run that is given a key."""
    default_key_ttl: float | None = None
    """The same."""

    @classmethod
    def by_default(cls, defaults: RunDefaults | None) -> "Using":
        """What a job says of its runs."""
        if defaults is None:
            return PLAIN
        return cls(
            tags=defaults.tags,
            expires_in=defaults.expires,
            deadline_in=defaults.deadline,
            default_unique=defaults.unique,
            default_key_ttl=defaults.key_ttl,
        )

    def with_(self, **given: Unpack[UsingOptions]) -> "Using":
        """The same with some options set; raises BadOption or BadDuration."""
        changes: dict[str, Any] = {}
        for name, value in given.items():
            reader = _READERS.get(name)
            if reader is None:
                raise BadOption(name, f"there is no such option; there are {', '.join(_READERS)}")
            changes.update(reader(value))
        if self.default_unique is not None and "key" in given:
            changes = {"unique": self.default_unique, **changes}
        if self.default_key_ttl is not None and "key" in given:
            changes = {"key_ttl": self.default_key_ttl, **changes}
        own = {name: changes.pop(name) for name in _STORED if name in changes}
        if own:
            changes["options"] = msgspec.structs.replace(self.options or Options(), **own)
        using = replace(self, **changes)
        if using.delay is not None and using.at is not None:
            raise BadOption("delay", "give either delay= or at=, not both")
        if using.after and (using.delay is not None or using.at is not None):
            why = "give either after= or a time: it starts when those runs have ended"
            raise BadOption("after", why)
        if using.after_failure is not None and not using.after:
            raise BadOption("after_failure", "it needs after=, the runs that may fail")
        if using.key_ttl is not None and using.key is None:
            raise BadOption("key_ttl", "it needs a key")
        if using.options is not None and using.options.unique and using.key is None:
            raise BadOption("unique", "it needs a key")
        return using


_STORED = Options.__struct_fields__

PLAIN = Using()
"""No options. There is one such value, so that it is known by its identity."""


class Request(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """A run to be made: `job.request(...)` makes one, `app.enqueue_many` enqueues them."""

    job: str
    queue: str
    priority: int
    input: bytes
    using: Using
    job_version: str | None = None
    returns: Returns | None = None
    """What reads the run's result; None: plain JSON."""

    @classmethod
    def of_nothing(cls, job: str) -> "Request":
        """One of a job of which nothing is known yet."""
        return cls(job=job, queue=DEFAULT_QUEUE, priority=0, input=b"{}", using=PLAIN)

    def within(self, connection: object) -> "Request[R_co]":
        """The same, to be enqueued in the caller's transaction."""
        return msgspec.structs.replace(self, using=replace(self.using, connection=connection))

    def read_result(self, data: msgspec.Raw) -> R_co:
        """A result of such a run, of the type that its handler is annotated with."""
        result: R_co = codec.decode(data) if self.returns is None else self.returns.read("", data)
        return result

    def new_run(self, run: str, tenant: str, by: Started | None = None) -> NewRun:
        """The request as the store takes it, under an id of its own; `by` is the run whose handler
        asks for it: they are of one trace."""
        using, named = self.using, asker()
        if using.takes is not None and not using.after:
            raise UsageError(f"A link of job {self.job!r} takes a result: give it to app.chain.")
        trace, enqueued_by = (None, None) if by is None else (trace_of(by), by.id)
        if using is PLAIN and named is None:  # nearly always where runs are made by the thousand
            return NewRun(
                id=run,
                tenant=tenant,
                job=self.job,
                job_version=self.job_version,
                queue=self.queue,
                priority=self.priority,
                input=msgspec.Raw(self.input),
                trace=trace,
                enqueued_by=enqueued_by,
            )
        return NewRun(
            id=run,
            tenant=tenant,
            job=self.job,
            job_version=self.job_version,
            queue=using.queue or self.queue,
            priority=self.priority if using.priority is None else using.priority,
            input=msgspec.Raw(self.input),
            options=using.options if named is None else _asked_by(named, using.options),
            key=using.key,
            key_ttl=using.key_ttl,
            tags=using.tags,
            delay=using.delay,
            at=using.at,
            expires_in=using.expires_in,
            expires_at=using.expires_at,
            deadline_in=using.deadline_in,
            deadline_at=using.deadline_at,
            trace=using.trace or trace,
            enqueued_by=enqueued_by,
            metadata=None if using.metadata is None else msgspec.Raw(using.metadata),
            after=using.after,
            after_failure=using.after_failure or "cancel",
            takes=using.takes,
        )


def _asked_by(name: str, options: Options | None) -> Options:
    """The options of a run that somebody asked for; see `app.acting_as`."""
    return msgspec.structs.replace(options or Options(), asked_by=name)


def read_option(name: str, value: Any) -> dict[str, Any]:
    """One option of ``using``, checked, as the store takes it."""
    return _READERS[name](value)


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
    raise BadOption("at", "give either at=, a datetime, or delay=, a duration")


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
    """A duration, an instant, or None to undo the job's default; what is given last counts."""
    if isinstance(value, datetime):
        return {f"{option}_at": _check_moment(option, value), f"{option}_in": None}
    length = None if value is None else parse_duration(value)
    return {f"{option}_in": length, f"{option}_at": None}


def _key_ttl(value: Any) -> dict[str, Any]:
    length = None if value is None else parse_duration(value)
    return {"key_ttl": length, "default_key_ttl": None}


def _metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise BadOption("metadata", f"{value!r} is not a mapping of names to values")
    data = codec.encode(dict(value), what="metadata", limit=MOST_METADATA)
    return {"metadata": data if value else None}


def _connection(value: object) -> dict[str, Any]:
    return {"connection": check_connection(value)}


def check_connection(value: object) -> object:
    """The caller's transaction; the store knows which it can use.

    None is none of these: the run would be enqueued at once, whatever becomes of the transaction.
    """
    if value is None:
        why = "give the connection whose transaction the run is to join, or leave the option out"
        raise BadOption("connection", why)
    return value


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
    "key_ttl": _key_ttl,
    "unique": lambda value: {"unique": check_unique(value), "default_unique": None},
    "queue": lambda value: {"queue": check_name("queue", value)},
    "tags": lambda value: {"tags": check_tags(value)},
    "expires": lambda value: _until("expires", value),
    "deadline": lambda value: _until("deadline", value),
    "max_attempts": lambda value: {"max_attempts": check_max_attempts(value)},
    "timeout": lambda value: {"timeout": check_timeout(value)},
    "trace": lambda value: {"trace": check_text("trace", value, _LONGEST_TRACE)},
    "metadata": _metadata,
    "connection": _connection,
    "after": lambda value: {"after": check_after(value)},
    "after_failure": lambda value: {"after_failure": check_after_failure(value)},
}
