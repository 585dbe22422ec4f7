"""An event as its readers get it: one value in Python, as JSON, and in a message to others.

The feed tells what happened to whom. A reader also needs to know of which job it was, how long the
attempt took, by what error it ended and when the next one begins. That is not stored with the
event: it is put together when it is read, from the run's record and its attempts. If a run is gone
by then, the event has what the feed says, and nothing else.
"""

from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from windlass.domain.event import EFFECTS, EventType
from windlass.domain.report import ErrorInfo
from windlass.domain.run import FeedEvent

_ENDS = frozenset(effect.event for effect in EFFECTS.values() if effect.attempt is not None)
_SCHEDULES = "schedule."
_NOTHING: MappingProxyType[str, Any] = MappingProxyType({})


class About(NamedTuple):
    """Whom an event is about."""

    id: str
    attempt: int


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a handler tells: a name of its own, and an object."""

    name: str
    data: msgspec.Raw


class EventFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run or a schedule, and of one attempt of it."""

    id: str
    attempt: int
    job: str
    queue: str | None = None
    worker: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: ErrorInfo | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a run or a schedule, or that a handler told by `ctx.emit`.

    `id` is its place in the feed: give it as `since` to go on after it. `time` is when it was
    recorded, `seq` its number among the events of its subject. `error` has no traceback; the run's
    attempts have it. `job`, and what follows from the run, is None if the run is gone.
    """

    id: str
    type: EventType
    time: datetime
    tenant: str
    subject: str
    seq: int
    attempt: int
    job: str | None = None
    queue: str | None = None
    worker: str | None = None
    error: ErrorInfo | None = None
    duration: float | None = None
    next_at: datetime | None = None
    data: dict[str, Any] = {}

    @property
    def run(self) -> str | None:
        """The id of the run; None if it is about a schedule."""
        return None if self.type.startswith(_SCHEDULES) else self.subject

    @property
    def schedule(self) -> str | None:
        """The id of the schedule; None if it is about a run."""
        return self.subject if self.type.startswith(_SCHEDULES) else None

    def to_dict(self) -> dict[str, Any]:
        """Its fields as plain JSON values."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown

    def to_cloudevent(self) -> dict[str, Any]:
        """The same as a CloudEvent 1.0 in its JSON format; what is not known is left out."""
        attributes = {
            "specversion": "1.0",
            "id": self.id,
            "source": f"/windlass/{quote(self.tenant, safe='')}",
            "type": self.type.value,
            "subject": self.subject,
            "time": msgspec.to_builtins(self.time),
            "datacontenttype": "application/json",
            "tenant": self.tenant,
            "run": self.run,
            "job": self.job,
            "queue": self.queue,
            "attempt": self.attempt,
            "seq": self.seq,
        }
        known = {name: value for name, value in attributes.items() if value is not None}
        return known | {"data": self._payload()}

    def _payload(self) -> dict[str, Any]:
        error = self.error
        added = {
            "worker": self.worker,
            "duration": self.duration,
            "next_at": msgspec.to_builtins(self.next_at),
            "error": None
            if error is None
            else {
                "type": error.type,
                "message": error.message,
                "fingerprint": error.fingerprint,
            },
        }
        return {name: value for name, value in added.items() if value is not None} | self.data


def event_of(fed: FeedEvent, facts: EventFacts | None) -> Event:
    """Put together what the feed says and what is known of the subject."""
    ended = facts if facts is not None and _ends_attempt(fed, facts) else None
    started = facts if fed.type is EventType.STARTED else None
    worker = ended or started
    error = None if ended is None else ended.error
    return Event(
        id=fed.place,
        type=fed.type,
        time=fed.at,
        tenant=fed.tenant,
        subject=fed.subject,
        seq=fed.seq,
        attempt=fed.attempt,
        job=None if facts is None else facts.job,
        queue=None if facts is None else facts.queue,
        worker=None if worker is None else worker.worker,
        error=None if error is None else msgspec.structs.replace(error, traceback=""),
        duration=None if ended is None else _duration(ended),
        next_at=_next(fed),
        data=fed.data or {},
    )


def _ends_attempt(fed: FeedEvent, facts: EventFacts) -> bool:
    """Whether the attempt ended by it: a run that fails between two attempts ends none."""
    return fed.type in _ENDS and facts.finished_at == fed.at


def _duration(facts: EventFacts) -> float | None:
    if facts.started_at is None or facts.finished_at is None:
        return None
    return (facts.finished_at - facts.started_at).total_seconds()


def _next(fed: FeedEvent) -> datetime | None:
    """When the run goes on, where the event says so."""
    said = fed.data or _NOTHING
    if fed.type in (EventType.RETRYING, EventType.SNOOZED) and "delay" in said:
        return fed.at + timedelta(seconds=said["delay"])
    if fed.type in (EventType.SLEEPING, EventType.WAITING) and said.get("until") is not None:
        return msgspec.convert(said["until"], datetime)
    return None
