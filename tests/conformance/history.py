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
I17  a death that says who handles it has exactly that run, and each run of a failure handler that
     the store made belongs to one death of the run by which it was enqueued

I18  a run's step ends once, by one event, while the run is running
I19  a signal is the one that its event tells of; it answers one step at most, which waited for it
     and has its payload, and signals of a name answer in the order in which they came
I20  no run waits for a signal that is there: whoever parks it looks once more, and whoever sends
     one makes it ready
I21  the generations of a run are numbered from 1, each by an event
I22  a child has ended if and only if its record says so; a step that has started children ends
     after all of them; no run waits for children that have all ended, unless a wake says so; links,
     places and what is held are as `domain/child.py` has it (see `offspring`)

I23  a run that comes after others is held until it is decided; whatever decides it is noticed: by a
     mark on what it waits for, or by a wake (see `following`)

`violations` returns sentences, none where all is well. Times are those that the store wrote;
`slack` allows for a clock that was set back meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from typing import Any

import msgspec

from tests.conformance.following import follower_violations
from tests.conformance.memory import Memory
from tests.conformance.offspring import child_violations
from tests.conformance.places import Row, Tables
from tests.conformance.slots import slot_violations
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.states import FINISHED, TIMERS, Failure, Status, Verb, advance
from windlass.errors import IllegalTransition

Name = tuple[str, str]
"""A run: its tenant and id."""

OF_STEPS = ("step.", "phase.")
OF_RUNS = ("run.", *OF_STEPS)
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
    EventType.SLEEPING: {AttemptOutcome.WAITED},
    EventType.WAITING: {AttemptOutcome.WAITED},
    EventType.CONTINUED: {AttemptOutcome.CONTINUED},
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
    steps: Sequence[Row] = ()
    signals: Sequence[Row] = ()
    children: Sequence[Row] = ()
    wakes: Sequence[Row] = ()
    follows: Sequence[Row] = ()
    generations: Sequence[Row] = ()
    run_logs: Sequence[Row] = ()
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
        rows["events"] = [row for row in events if row["type"].startswith(OF_RUNS)]
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
    found = [*_impure(history), *_unfed(history), *unhandled(history)]
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
    found += child_violations(
        history.runs, history.timers, history.steps, history.children, history.wakes
    )
    found += follower_violations(history.runs, history.timers, history.follows, history.wakes)
    return found


def _impure(history: History) -> Iterator[str]:
    known = {(row["tenant"], row["id"]) for row in history.runs}
    owners = {
        "timers": "id", "ready": "id", "leases": "id", "attempts": "run", "events": "subject",
        "failures": "id", "run_keys": "run", "run_tags": "id", "progress": "id",
        "steps": "run", "signals": "run", "generations": "run", "run_logs": "run",
    }  # fmt: skip
    for table, column in owners.items():
        for row in getattr(history, table):
            if (row["tenant"], row[column]) not in known:
                yield f"a row of {table} is of run {row['tenant']}/{row[column]}: there is none"


def unhandled(history: History) -> Iterator[str]:
    """What is wrong between the runs that failed and those of their failure handlers."""
    deaths: dict[Name, Name] = {}
    for event in history.events:
        by, dead = _data(event).get("handled_by"), (event["tenant"], event["subject"])
        if by is not None and deaths.setdefault((event["tenant"], by), dead) != dead:
            yield f"two runs name {by} as the handler of their failure (I17)"
    for run in history.runs:
        about = f"run {run['tenant']}/{run['id']}"
        died = deaths.pop((run["tenant"], run["id"]), None)
        handles = "on_failure" in (_decoded(run["options"]) or {})
        if handles and (died is None or died[1] != run["enqueued_by"]):
            yield f"{about} handles a failure that was not recorded (I17)"
        elif died is not None and not handles:
            yield f"{about} is no failure handler's run, and run {died[1]} names it (I17)"
    for name, dead in deaths.items():
        yield f"run {dead[0]}/{dead[1]} failed, and its handler's run {name[1]} is not there (I17)"


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
    memory: Memory

    def problems(self, max_attempts: int | None, slack: timedelta) -> Iterator[str]:
        yield from self._position()
        yield from self._numbers()
        yield from self._times(slack)
        yield from self.memory.problems(self.events)
        replay = _Replay(self.memory)
        ready = any(table == "ready" for table, _ in self.positions)
        for event, following in zip_longest(self.events, self.events[1:]):
            # A run that is parked and starts next has not waited: its children had ended.
            at_once = ready if following is None else following["type"] == EventType.STARTED
            replay.apply(event, at_once)
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
        if not self.positions:
            return None
        table, row = self.positions[0]
        return TIMERS.get(row.get("why") or "", POSITIONS[table])

    def _position(self) -> Iterator[str]:
        finished = self.record["status"] is not None
        where = [table for table, _ in self.positions]
        if finished and where:
            yield f"is {self.record['status']} and has a row in {where} (I14)"
        if not finished and len(where) != 1:
            yield f"is live and has {len(where)} positions {where} (I14)"
        for _, row in self.positions:
            paths = row.get("waits")
            if paths and row["why"] == "wait" and self.memory.answers(_decoded(paths)):
                yield f"waits in {paths} for a signal that is there (I20)"
        holder = self.record if finished else (self.positions[0][1] if where else None)
        if holder is None:
            return
        # A success that is stale keeps its seq: its record tells of both.
        stale = finished and holder["status"] == "succeeded" and holder["stale_at"] is not None
        if holder["seq"] + stale != len(self.events):
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
    steps = _grouped(history.steps, "run", "generation")
    signals = _grouped(history.signals, "run", "number")
    generations = _grouped(history.generations, "run", "generation")
    for record in history.runs:
        name = (record["tenant"], record["id"])
        yield _Run(
            name=name,
            record=record,
            positions=positions[name],
            attempts=attempts[name],
            events=events[name],
            failure=failures.get(name),
            memory=Memory(steps[name], signals[name], generations[name]),
        )


def _grouped(rows: Sequence[Row], owner: str, order: str) -> Mapping[Name, Sequence[Row]]:
    found: defaultdict[Name, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row[order])):
        found[row["tenant"], row[owner]].append(row)
    return found


class _Replay:
    """Reads a run's events in order and follows its status by the table of transitions."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.status: Status | None = None
        self.failure: str | None = None
        self.ends: list[set[AttemptOutcome]] = []
        self.problems: list[str] = []
        self.most_tries = 0
        self._tries = 0  # attempts whose handler failed or succeeded

    def apply(self, event: Row, at_once: bool) -> None:
        """Take the next event; `at_once`: if the run was parked by it, it was ready at once."""
        kind = EventType(event["type"])
        data = _data(event)
        before = self.status
        if kind is EventType.ENQUEUED:
            expected = before is None
            self.status = Status.SCHEDULED if data.get("why") == "delay" else Status.QUEUED
        elif kind is EventType.DISCARDED:
            expected = before is Status.FAILED
        elif kind is EventType.STALE:
            expected = before in (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)
        elif kind.startswith(OF_STEPS):
            expected = before is Status.RUNNING
        else:
            expected = before is not None and self._follow(event, before, data, at_once)
        if not expected:
            self.problems.append(f"{kind} at seq {event['seq']} follows {before} (I2, I8)")
        self._count(kind, before, data)

    def _follow(self, event: Row, before: Status, data: Mapping[str, Any], at_once: bool) -> bool:
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
        parked = kind in (EventType.SLEEPING, EventType.WAITING) and after not in FINISHED
        over = parked and self._goes_on(event, data, at_once)
        self.status = Status.QUEUED if again_at_once or due or over else after
        return True

    def _goes_on(self, event: Row, data: Mapping[str, Any], at_once: bool) -> bool:
        """Whether what a run gave its lease up for had come already."""
        until = data.get("until")
        if until is not None and datetime.fromisoformat(until) <= event["at"]:
            return True
        if self._memory.waits_for_children(data["for"]):
            return at_once
        return self._memory.answers(data["for"], at=event["seq"])

    def _count(self, kind: EventType, before: Status | None, data: Mapping[str, Any]) -> None:
        if before is Status.RUNNING and kind in ENDS:
            crashed = kind is EventType.FAILED and data.get("failure") == Failure.CRASHED
            self.ends.append({AttemptOutcome.CRASHED} if crashed else ENDS[kind])
        if kind is EventType.FAILED:
            self.failure = data.get("failure")
        reopened = kind is EventType.RESCHEDULED and before in FINISHED
        if kind in (EventType.RETRIED, EventType.RESTARTED) or reopened:
            self.failure = None
            self._tries = 0
        if kind is EventType.CONTINUED:
            self._tries = 0
        if before is Status.RUNNING and kind in TRIES:
            self._tries += data.get("failure") != Failure.CRASHED
            self.most_tries = max(self.most_tries, self._tries)


def _verb(kind: EventType, before: Status, data: Mapping[str, Any]) -> Verb:
    """What happened, by the name of the event and where the run was."""
    match kind:
        case EventType.QUEUED:
            return Verb.DUE
        case EventType.HELD:
            return Verb.HOLD
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
        case EventType.SLEEPING:
            return Verb.SLEEP
        case EventType.WAITING:
            return Verb.WAIT
        case EventType.CONTINUED:
            return Verb.CONTINUE
        case EventType.SIGNALED:
            return Verb.SIGNAL
        case EventType.INTERRUPTED:
            return Verb.RELEASE
        case EventType.CRASHED:
            return Verb.REAP
        case EventType.CANCEL_REQUESTED:
            # Of a run that waits it would be the end itself.
            return Verb.CANCEL if before is Status.RUNNING else Verb.STOP
        case EventType.CANCELED:
            return Verb.STOP if before is Status.RUNNING else Verb.CANCEL
        case EventType.PAUSE_REQUESTED | EventType.PAUSED:
            return Verb.PAUSE
        case EventType.RESUMED:
            gone = {"scheduled": Verb.RESUME_TIMER, "waiting": Verb.RESUME_WAIT}
            return gone.get(data.get("to", ""), Verb.RESUME)
        case EventType.RETRIED:
            return Verb.RETRY
        case EventType.RESTARTED:
            return Verb.RESTART
        case EventType.RESCHEDULED:
            return Verb.RESCHEDULE
        case EventType.REPRIORITIZED:
            return Verb.REPRIORITIZE
        case EventType.CHANGED:
            return Verb.CHANGE
        case _:
            raise AssertionError(f"{kind} is no move of a run")


def _is_due(event: Row) -> bool:
    """Whether the time that was chosen is the time at which it was."""
    told: datetime = event["at"]
    return datetime.fromisoformat(_data(event)["at"]) <= told


def _data(event: Row) -> Mapping[str, Any]:
    return _decoded(event["data"]) or {}


def _decoded(document: Any) -> Any:
    """JSON is text in one store and a value in the other."""
    return msgspec.json.decode(document) if isinstance(document, str) else document
