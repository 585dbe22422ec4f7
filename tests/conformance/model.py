"""The store as a few dictionaries: the oracle of the rule machine.

It follows `domain.states` alone, knows nothing of tables, and is written to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from windlass.domain.blame import after_lost_worker
from windlass.domain.outcome import Outcome
from windlass.domain.states import (
    Failure,
    Intent,
    Status,
    Verb,
    advance,
    is_paused_next,
    resumed_by,
    under_intent,
)
from windlass.domain.step import StepState, StepWrite

VERBS = {
    Outcome.SUCCEEDED: Verb.SUCCEED,
    Outcome.RETRY: Verb.BACKOFF,
    Outcome.FAILED: Verb.FAIL,
    Outcome.SNOOZED: Verb.SNOOZE,
    Outcome.SLEEPING: Verb.SLEEP,
    Outcome.WAITING: Verb.WAIT,
    Outcome.CONTINUED: Verb.CONTINUE,
    Outcome.CANCELED: Verb.STOP,
    Outcome.RELEASED: Verb.RELEASE,
    Outcome.CRASHED: Verb.REAP,
}

FAILURES = {
    Verb.EXPIRE: Failure.EXPIRED,
    Verb.OVERRUN: Failure.DEADLINE,
    Verb.CRASH: Failure.CRASHED,
}


PARKED = (Status.SCHEDULED, Status.WAITING)


@dataclass(slots=True)
class ModelStep:
    """What a run remembers of a step."""

    state: StepState
    signal: str | None = None
    until: datetime | None = None


@dataclass(slots=True)
class ModelSignal:
    """What was sent to a run."""

    number: int
    name: str
    key: str | None
    taken: bool = False
    spent: bool = False  # by a step of an input that the run went on from


@dataclass(slots=True, kw_only=True)
class ModelRun:
    """One run."""

    id: str
    priority: int
    status: Status
    ready_at: datetime
    scheduled_for: datetime
    due_at: datetime | None = None
    expires_at: datetime | None = None
    deadline_at: datetime | None = None
    attempt: int = 0
    failures: int = 0
    crash_count: int = 0
    token: int = 0
    seq: int = 1
    worker: str | None = None
    claim_no: int = 0
    intent: Intent | None = None
    failure: Failure | None = None
    may_expire: bool = True  # until its next start
    waits: tuple[str, ...] = ()  # the steps in which it sleeps or waits
    steps: dict[str, ModelStep] = field(default_factory=dict)
    signals: list[ModelSignal] = field(default_factory=list)
    generations: int = 0  # inputs that it went on from
    was: tuple[Status, datetime | None] = (Status.QUEUED, None)  # before it was paused

    def move(self, verb: Verb) -> Status:
        """Apply a verb, with the event that tells of it."""
        self.status = advance(self.status, under_intent(verb, self.intent))
        self.seq += 1
        if self.status is not Status.RUNNING:
            self.intent = None
        if self.status not in (*PARKED, Status.PAUSED):
            self.waits = ()
        if self.status is Status.FAILED and verb in FAILURES:
            self.failure = FAILURES[verb]
        return self.status

    def late(self, when: datetime) -> Verb | None:
        """By what a run that waits is over then; what has started does not expire, unless it is
        given another expiry while it waits to be tried again."""
        if self.may_expire and self.expires_at is not None and self.expires_at <= when:
            return Verb.EXPIRE
        return Verb.OVERRUN if self.overran(when) else None

    def free_signal(self, name: str | None) -> ModelSignal | None:
        """The first signal of a name that answered no step."""
        free = (signal for signal in self.signals if signal.name == name and not signal.taken)
        return next(free, None)

    def answered(self, paths: Sequence[str]) -> bool:
        """Whether one of these steps waits for a signal that is there."""
        steps = [self.steps[path] for path in paths if path in self.steps]
        return any(
            step.state is StepState.WAITING and self.free_signal(step.signal) is not None
            for step in steps
        )

    def overran(self, when: datetime) -> bool:
        """Whether its deadline has passed."""
        return self.deadline_at is not None and self.deadline_at <= when


@dataclass(slots=True)
class Model:
    """All runs, the keys that name some of them, and the workers."""

    runs: dict[str, ModelRun] = field(default_factory=dict)
    keys: dict[str, tuple[str, object, datetime | None]] = field(default_factory=dict)
    workers: dict[str, datetime] = field(default_factory=dict)

    def owner(self, key: str, now: datetime) -> tuple[str, object] | None:
        """The run that a key names, and its input, while the key holds."""
        found = self.keys.get(key)
        if found is None or (found[2] is not None and found[2] <= now):
            return None
        return found[0], found[1]

    def alive(self, worker: str, now: datetime) -> bool:
        """Whether a worker may claim."""
        return worker in self.workers and self.workers[worker] > now

    def claim(self, worker: str, number: int, limit: int, now: datetime) -> Sequence[ModelRun]:
        """Lease the most urgent runs to a worker."""
        ready = [
            run
            for run in self.runs.values()
            if run.status is Status.QUEUED and run.late(now) is None
        ]
        ready.sort(key=lambda run: (-run.priority, run.ready_at, run.id))
        for run in ready[:limit]:
            run.move(Verb.CLAIM)
            run.attempt += 1
            run.may_expire = False
            run.token += 1
            run.worker, run.claim_no = worker, number
        return ready[:limit]

    def record(self, run: ModelRun, write: StepWrite, now: datetime) -> ModelStep:
        """Remember a step of a run that is running."""
        known = run.steps.get(write.path)
        if known is not None and known.state.ended:
            return known
        until = None if write.wait is None else now + timedelta(seconds=write.wait)
        if known is not None and write.state is StepState.WAITING:
            until = known.until
        step = run.steps[write.path] = ModelStep(write.state, write.signal, until)
        if write.state is StepState.WAITING and write.signal is not None:
            signal = run.free_signal(write.signal)
            if signal is not None:
                signal.taken = True
                step.state = StepState.DONE
            elif until is not None and until <= now:
                step.state = StepState.TIMED_OUT
        run.seq += step.state is not StepState.WAITING
        return step

    def signal(self, run: ModelRun, name: str, key: str | None, now: datetime) -> tuple[int, bool]:
        """Send a signal to a run that has not ended: its number, and whether it is a new one."""
        for known in run.signals:
            if key is not None and (known.name, known.key) == (name, key):
                return known.number, False
        run.move(Verb.SIGNAL)
        run.signals.append(ModelSignal(run.seq, name, key))
        number = run.seq
        if run.status is Status.WAITING and run.answered(run.waits):
            run.move(Verb.DUE)
            run.ready_at = now
        return number, True

    def finish(
        self,
        ident: str,
        token: int,
        outcome: Outcome,
        due: datetime | None,
        now: datetime,
        waits: tuple[str, ...] = (),
    ) -> bool:
        """End an attempt; false: the lease is not held under this token."""
        run = self.runs.get(ident)
        if run is None or run.status is not Status.RUNNING or run.token != token:
            return False
        wanted = run.intent
        run.failures += outcome in (Outcome.RETRY, Outcome.FAILED)
        run.crash_count += outcome is Outcome.CRASHED
        status = run.move(VERBS[outcome])
        if status in PARKED:
            run.due_at, run.waits = due, waits
            # Who sleeps or waits may do so for ever; who is tried again later has a time for that.
            endless = outcome in (Outcome.SLEEPING, Outcome.WAITING)
            over = not endless if due is None else due <= now
            if over or run.answered(waits):
                run.status, run.ready_at, run.waits = Status.QUEUED, now, ()
        elif status is Status.QUEUED:
            run.ready_at = now
        elif status is Status.FAILED:
            run.failure = Failure.FATAL
        if outcome is Outcome.CONTINUED and status is Status.QUEUED:
            run.failures = run.crash_count = 0
            run.steps.clear()
            run.generations += 1
            for signal in run.signals:
                signal.spent = signal.taken
        self._settle(run, wanted)
        return True

    def _settle(self, run: ModelRun, wanted: Intent | None) -> None:
        """Pause a run that has left its lease, if that was asked."""
        if is_paused_next(run.status, wanted):
            self.pause(run)

    def pause(self, run: ModelRun) -> None:
        """Put a run aside that does not run."""
        run.was = (run.status, run.due_at if run.status in PARKED else None)
        run.move(Verb.PAUSE)

    def resume(self, run: ModelRun, now: datetime) -> None:
        """Let a paused run go on where it was."""
        before, due = run.was
        come = (due is not None and due <= now) or (
            before is Status.WAITING and run.answered(run.waits)
        )
        run.move(resumed_by(before, come=come))
        run.due_at = due
        if run.status is Status.QUEUED:
            run.ready_at = now

    def restart(self, run: ModelRun, now: datetime) -> None:
        """Let a run begin anew."""
        if run.status is not Status.QUEUED:
            run.ready_at = now
        if run.status.finished:
            self._reopen(run, Verb.RESTART)
        else:
            run.move(Verb.RESTART)
        run.failures = run.crash_count = 0
        run.steps.clear()
        for signal in run.signals:
            signal.taken = signal.spent

    def give_back(self, runs: Sequence[ModelRun], now: datetime) -> int:
        """Take leases from a worker that lives."""
        for run in runs:
            wanted = run.intent
            if run.move(Verb.RELEASE) is Status.QUEUED:
                run.ready_at = now
            self._settle(run, wanted)
        return len(runs)

    def held_by(self, worker: str) -> Sequence[ModelRun]:
        """The runs that a worker holds."""
        return [
            run
            for run in self.runs.values()
            if run.status is Status.RUNNING and run.worker == worker
        ]

    def expire(self, now: datetime) -> int:
        """End what waited too long for its first start."""
        late = [run for run in self._waiting() if run.late(now) is Verb.EXPIRE]
        for run in late:
            run.move(Verb.EXPIRE)
        return len(late)

    def overrun(self, lease: float, now: datetime) -> int:
        """End what was not done by its deadline; of what runs, what its worker left for a lease."""
        past = now - timedelta(seconds=lease)
        late = [run for run in self._waiting() if run.overran(now)]
        late += [
            run
            for run in self.runs.values()
            if run.status is Status.RUNNING and run.worker in self.workers and run.overran(past)
        ]
        for run in late:
            run.failures += run.status is Status.RUNNING
            run.move(Verb.OVERRUN)
        return len(late)

    def _waiting(self) -> Sequence[ModelRun]:
        waits = (*PARKED, Status.QUEUED, Status.PAUSED)
        return [run for run in self.runs.values() if run.status in waits]

    def dispatch(self, now: datetime) -> set[str]:
        """Make ready what is due."""
        due = [
            run
            for run in self.runs.values()
            if run.status in PARKED and run.due_at is not None and run.due_at <= now
        ]
        for run in due:
            run.move(Verb.DUE)
            run.ready_at = now
        return {run.id for run in due}

    def reap(self, max_crashes: int, now: datetime) -> tuple[int, int]:
        """Take the runs of dead workers back; how many go on, and how many crashed too often."""
        dead = {worker for worker, until in self.workers.items() if until <= now}
        alone = {worker for worker in dead if len(self.held_by(worker)) == 1}
        back = crashed = 0
        for run in self.runs.values():
            if run.status is not Status.RUNNING or run.worker not in dead:
                continue
            run.crash_count += 1
            verb = after_lost_worker(
                run.crash_count, alone=run.worker in alone, max_crashes=max_crashes
            )
            wanted = run.intent
            status = run.move(verb)
            if status is Status.QUEUED:
                run.ready_at = now
            self._settle(run, wanted)
            back += status is Status.QUEUED
            crashed += status is Status.FAILED
        for worker in dead:
            del self.workers[worker]
        return back, crashed

    def retry(self, run: ModelRun, now: datetime) -> None:
        """Reopen a run that ended."""
        self._reopen(run, Verb.RETRY)
        run.ready_at = now

    def reschedule(self, run: ModelRun, due: datetime, now: datetime) -> Status:
        """Move a run that waits, or reopen one that ended."""
        if run.status.finished:
            self._reopen(run, Verb.RESCHEDULE)
        else:
            run.move(Verb.RESCHEDULE)
        run.scheduled_for = run.due_at = max(due, now)
        if due <= now:
            run.status, run.ready_at, run.waits = advance(run.status, Verb.DUE), now, ()
        return run.status

    def _reopen(self, run: ModelRun, verb: Verb) -> None:
        run.move(verb)
        run.failures = run.crash_count = 0
        run.failure = run.expires_at = run.deadline_at = None
        again = (StepState.FAILED, StepState.RETRYING)
        run.steps = {path: step for path, step in run.steps.items() if step.state not in again}
