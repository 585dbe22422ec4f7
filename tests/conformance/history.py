"""The history checker: what must be true of the tables whatever happened to the processes.

It reads the rows, not the store's answers, and knows the rules only from `domain.states`:

I2   a run has one outcome, told by one event, equal to its record; nothing follows it but a
     discard, or an operator's retry or reschedule
I3   attempts are numbered 1 to n, each with one end that fits the events; no more of them than
     the budget, with crashes, interruptions and snoozes not counted, and an operator's retry
     opening a new one
I4   tokens grow strictly; no two attempts of a run overlap
I8   a run's events are numbered 1 to n, do not go back in time, and each may follow the last
I10  a slot of a schedule makes one run at most (see `slots`)
I13  the feed has each event of each run and schedule once, as it is in the history of its subject,
     and those of a subject in the order of their seq
I14  a live run has exactly one position, a finished one none; a position carries the run's seq,
     token and attempt
I16  every row belongs to a run of the same tenant

`violations` returns sentences, none where all is well. Times are those that the store wrote;
`slack` allows for a clock that was set back meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

from tests.conformance.places import Row, Tables
from tests.conformance.slots import slot_violations
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.states import FINISHED, Failure, Status, Verb, advance
from windlass.errors import IllegalTransition

Name = tuple[str, str]
"""A run: its tenant and id."""

POSITIONS = {
    "timers": Status.SCHEDULED,
    "ready": Status.QUEUED,
    "leases": Status.RUNNING,
}

OUTCOMES = {
    EventType.SUCCEEDED: Status.SUCCEEDED,
    EventType.FAILED: Status.FAILED,
    EventType.CANCELED: Status.CANCELED,
}

# How the attempt ended that each of these events ended.
ENDS = {
    EventType.SUCCEEDED: {AttemptOutcome.SUCCEEDED},
    EventType.FAILED: {AttemptOutcome.FAILED, AttemptOutcome.TIMEOUT},
    EventType.RETRYING: {AttemptOutcome.FAILED, AttemptOutcome.TIMEOUT},
    EventType.SNOOZED: {AttemptOutcome.SNOOZED},
    EventType.INTERRUPTED: {AttemptOutcome.INTERRUPTED},
    EventType.CRASHED: {AttemptOutcome.CRASHED},
    EventType.CANCELED: set(AttemptOutcome) - {AttemptOutcome.SUCCEEDED},
}

# Ends that a handler comes to by itself.
TRIES = {EventType.SUCCEEDED, EventType.FAILED, EventType.RETRYING}

# What a record has from the end of a run until somebody reopens it.
OF_AN_END = (
    "failure", "result", "error", "reason", "attempt", "failures", "crash_count", "token", "seq",
    "started_seq", "started_at", "finished_at", "worker_no", "attempt_version", "stale_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The rows of the tables that tell of runs."""

    runs: Sequence[Row]
    timers: Sequence[Row]
    ready: Sequence[Row]
    leases: Sequence[Row]
    attempts: Sequence[Row]
    events: Sequence[Row]
    failures: Sequence[Row]
    run_keys: Sequence[Row] = ()
    run_tags: Sequence[Row] = ()
    progress: Sequence[Row] = ()
    schedules: Sequence[Row] = ()
    schedule_slots: Sequence[Row] = ()
    schedule_live: Sequence[Row] = ()
    schedule_events: Sequence[Row] = ()
    feed: Sequence[Row] = ()

    @classmethod
    def read(cls, tables: Tables) -> History:
        """Read a database that nobody is writing to."""
        names = [name for name in cls.__dataclass_fields__ if name != "schedule_events"]
        rows = dict(tables.read(names))
        events = rows["events"]
        # Other things than runs have events as well.
        rows["events"] = [row for row in events if row["type"].startswith("run.")]
        rows["schedule_events"] = [row for row in events if row["type"].startswith("schedule.")]
        return cls(**rows)


def violations(
    history: History,
    *,
    max_attempts: int | Mapping[str, int] | None = None,
    slack: timedelta = timedelta(0),
) -> list[str]:
    """What is wrong with a history, in sentences.

    `max_attempts` is the budget that all its runs had, if they had the same, or that of each job.
    """
    found = [*_impure(history), *_unfed(history)]
    for run in _runs(history):
        about = f"run {run.name[0]}/{run.name[1]}"
        given = max_attempts
        budget = given.get(run.record["job"]) if isinstance(given, Mapping) else given
        found += [f"{about}: {problem}" for problem in run.problems(budget, slack)]
    found += slot_violations(
        history.schedules,
        history.schedule_slots,
        history.schedule_live,
        history.schedule_events,
        history.runs,
    )
    return found


def _impure(history: History) -> Iterator[str]:
    known = {(row["tenant"], row["id"]) for row in history.runs}
    owners = {
        "timers": "id", "ready": "id", "leases": "id", "attempts": "run", "events": "subject",
        "failures": "id", "run_keys": "run", "run_tags": "id", "progress": "id",
    }  # fmt: skip
    for table, column in owners.items():
        for row in getattr(history, table):
            if (row["tenant"], row[column]) not in known:
                yield f"a row of {table} is of run {row['tenant']}/{row[column]}: there is none"


def _unfed(history: History) -> Iterator[str]:
    told: dict[tuple[Any, ...], int] = {}
    for place, event in enumerate(history.feed):
        if told.setdefault(_told(event), place) != place:
            yield f"the feed has twice: {event} (I13)"
    last: dict[Name, int] = {}
    for event in sorted((*history.events, *history.schedule_events), key=lambda row: row["seq"]):
        place = told.pop(_told(event), -1)
        subject = event["tenant"], event["subject"]
        if place < 0:
            yield f"the feed does not have: {event} (I13)"
        elif place < last.get(subject, -1):
            yield f"the feed has too early: {event} (I13)"
        last[subject] = place
    for never in told:
        yield f"the feed has what never happened: {never} (I13)"


def _told(event: Row) -> tuple[Any, ...]:
    """What the feed and the history of a subject must both say of an event."""
    names = ("tenant", "subject", "seq", "type", "at", "attempt")
    return (*(event[name] for name in names), repr(_data(event)))


@dataclass(slots=True, kw_only=True)
class _Run:
    name: Name
    record: Row
    positions: Sequence[tuple[str, Row]]
    attempts: Sequence[Row]
    events: Sequence[Row]
    failure: Row | None

    def problems(self, max_attempts: int | None, slack: timedelta) -> Iterator[str]:
        yield from self._position()
        yield from self._numbers()
        yield from self._times(slack)
        replay = _Replay()
        for event in self.events:
            replay.apply(event)
        yield from replay.problems
        yield from self._outcome(replay)
        yield from self._attempts(replay)
        if max_attempts is not None and replay.most_tries > max_attempts:
            yield f"{replay.most_tries} attempts had an end, of {max_attempts} allowed (I3)"

    @property
    def status(self) -> Status | None:
        """The status by the rows: the record's, or that of the position."""
        if self.record["status"] is not None:
            return Status(self.record["status"])
        return POSITIONS[self.positions[0][0]] if self.positions else None

    def _position(self) -> Iterator[str]:
        finished = self.record["status"] is not None
        where = [table for table, _ in self.positions]
        if finished and where:
            yield f"is {self.record['status']} and has a row in {where} (I14)"
        if not finished and len(where) != 1:
            yield f"is live and has {len(where)} positions {where} (I14)"
        holder = self.record if finished else (self.positions[0][1] if where else None)
        if holder is None:
            return
        if holder["seq"] != len(self.events):
            yield f"carries seq {holder['seq']} and has {len(self.events)} events (I8)"
        started = sum(event["type"] == EventType.STARTED for event in self.events)
        if holder["attempt"] != started:
            yield f"carries attempt {holder['attempt']} and was started {started} times (I3)"
        tokens = [row["token"] for row in self.attempts]
        running = "leases" in where
        if tokens and (holder["token"] < max(tokens) or (running and holder["token"] in tokens)):
            yield f"carries token {holder['token']} after {max(tokens)} (I4)"

    def _numbers(self) -> Iterator[str]:
        seqs = [event["seq"] for event in self.events]
        if seqs != list(range(1, len(seqs) + 1)):
            yield f"events are numbered {seqs} (I8)"
        numbers = [row["attempt"] for row in self.attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"ended attempts are numbered {numbers} (I3)"
        tokens = [row["token"] for row in self.attempts]
        if any(b <= a for a, b in pairwise(tokens)):
            yield f"tokens of its attempts are {tokens} (I4)"

    def _times(self, slack: timedelta) -> Iterator[str]:
        times: list[datetime] = [event["at"] for event in self.events]
        if any(b < a - slack for a, b in pairwise(times)):
            yield f"events go back in time: {[t.isoformat() for t in times]} (I8)"
        spans = [(row["started_at"], row["finished_at"]) for row in self.attempts]
        spans += [(row["started_at"], None) for table, row in self.positions if table == "leases"]
        if any(end is not None and end < start - slack for start, end in spans):
            yield "an attempt ended before it began (I4)"
        for (_, end), (start, _) in pairwise(spans):
            if end is not None and start < end - slack:
                yield "two of its attempts overlap (I4)"

    def _outcome(self, replay: _Replay) -> Iterator[str]:
        if self.status is not None and replay.status is not self.status:
            yield f"is {self.status} by its rows and {replay.status} by its events (I2)"
        if self.record["status"] is None:
            if self.failure is not None:
                yield "is live and has a row in failures (I2)"
            left = [name for name in OF_AN_END if self.record[name] is not None]
            if left:
                yield f"is live and its record has {left} of an end (I2)"
            return
        dead = self.record["status"] in (Status.FAILED, Status.CANCELED)
        if dead != (self.failure is not None):
            yield f"is {self.record['status']}, row in failures: {self.failure is not None} (I2)"
        elif self.failure is not None and self.failure["status"] != self.record["status"]:
            yield f"is {self.record['status']} and {self.failure['status']} in failures (I2)"
        if self.record["failure"] != replay.failure:
            yield f"failed by {self.record['failure']}, by its events by {replay.failure} (I2)"

    def _attempts(self, replay: _Replay) -> Iterator[str]:
        if len(replay.ends) != len(self.attempts):
            yield f"{len(self.attempts)} attempts are recorded, {len(replay.ends)} ended (I3)"
            return
        for row, allowed in zip(self.attempts, replay.ends, strict=True):
            if AttemptOutcome(row["outcome"]) not in allowed:
                yield f"attempt {row['attempt']} {row['outcome']}, by the events {allowed} (I3)"


def _runs(history: History) -> Iterator[_Run]:
    positions: defaultdict[Name, list[tuple[str, Row]]] = defaultdict(list)
    for table in POSITIONS:
        for row in getattr(history, table):
            positions[row["tenant"], row["id"]].append((table, row))
    attempts = _grouped(history.attempts, "run", "attempt")
    events = _grouped(history.events, "subject", "seq")
    failures = {(row["tenant"], row["id"]): row for row in history.failures}
    for record in history.runs:
        name = (record["tenant"], record["id"])
        yield _Run(
            name=name,
            record=record,
            positions=positions[name],
            attempts=attempts[name],
            events=events[name],
            failure=failures.get(name),
        )


def _grouped(rows: Sequence[Row], owner: str, order: str) -> Mapping[Name, Sequence[Row]]:
    found: defaultdict[Name, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row[order])):
        found[row["tenant"], row[owner]].append(row)
    return found


class _Replay:
    """Reads a run's events in order and follows its status by the table of transitions."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.failure: str | None = None
        self.ends: list[set[AttemptOutcome]] = []
        self.problems: list[str] = []
        self.most_tries = 0
        self._tries = 0  # attempts whose handler failed or succeeded

    def apply(self, event: Row) -> None:
        """Take the next event."""
        kind = EventType(event["type"])
        data = _data(event)
        before = self.status
        if kind is EventType.ENQUEUED:
            expected = before is None
            self.status = Status.SCHEDULED if data.get("why") == "delay" else Status.QUEUED
        elif kind is EventType.DISCARDED:
            expected = before is Status.FAILED
        else:
            expected = before is not None and self._follow(event, before, data)
        if not expected:
            self.problems.append(f"{kind} at seq {event['seq']} follows {before} (I2, I8)")
        self._count(kind, before, data)

    def _follow(self, event: Row, before: Status, data: Mapping[str, Any]) -> bool:
        kind = EventType(event["type"])
        verb = _verb(kind, before, data)
        try:
            # Whether a success had become stale before it was reopened is not told by events.
            after = advance(before, verb, stale=True)
        except IllegalTransition:
            self.status = OUTCOMES.get(kind, before)
            return False
        again_at_once = kind in (EventType.RETRYING, EventType.SNOOZED) and not data.get("delay")
        due = kind is EventType.RESCHEDULED and _is_due(event)
        self.status = Status.QUEUED if again_at_once or due else after
        return True

    def _count(self, kind: EventType, before: Status | None, data: Mapping[str, Any]) -> None:
        if before is Status.RUNNING and kind in ENDS:
            crashed = kind is EventType.FAILED and data.get("failure") == Failure.CRASHED
            self.ends.append({AttemptOutcome.CRASHED} if crashed else ENDS[kind])
        if kind is EventType.FAILED:
            self.failure = data.get("failure")
        if kind is EventType.RETRIED or (kind is EventType.RESCHEDULED and before in FINISHED):
            self.failure = None
            self._tries = 0
        if before is Status.RUNNING and kind in TRIES:
            self._tries += data.get("failure") != Failure.CRASHED
            self.most_tries = max(self.most_tries, self._tries)


def _verb(kind: EventType, before: Status, data: Mapping[str, Any]) -> Verb:
    """What happened, by the name of the event and where the run was."""
    match kind:
        case EventType.QUEUED:
            return Verb.DUE
        case EventType.STARTED:
            return Verb.CLAIM
        case EventType.SUCCEEDED:
            return Verb.SUCCEED
        case EventType.FAILED:
            failure = data.get("failure")
            if failure == Failure.EXPIRED:
                return Verb.EXPIRE
            if failure == Failure.DEADLINE:
                return Verb.OVERRUN
            return Verb.CRASH if failure == Failure.CRASHED else Verb.FAIL
        case EventType.RETRYING:
            return Verb.BACKOFF
        case EventType.SNOOZED:
            return Verb.SNOOZE
        case EventType.INTERRUPTED:
            return Verb.RELEASE
        case EventType.CRASHED:
            return Verb.REAP
        case EventType.CANCEL_REQUESTED:
            # Of a run that waits it would be the end itself.
            return Verb.CANCEL if before is Status.RUNNING else Verb.STOP
        case EventType.CANCELED:
            return Verb.STOP if before is Status.RUNNING else Verb.CANCEL
        case EventType.RETRIED:
            return Verb.RETRY
        case EventType.RESCHEDULED:
            return Verb.RESCHEDULE
        case EventType.REPRIORITIZED:
            return Verb.REPRIORITIZE
        case _:
            raise AssertionError(f"{kind} is no move of a run")


def _is_due(event: Row) -> bool:
    """Whether the time that was chosen is the time at which it was."""
    told: datetime = event["at"]
    return datetime.fromisoformat(_data(event)["at"]) <= told


def _data(event: Row) -> Mapping[str, Any]:
    data = event["data"]
    if isinstance(data, str):
        data = msgspec.json.decode(data)
    return data or {}
