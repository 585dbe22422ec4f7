"""Draining: everything that is ready runs, here and now, one run at a time.

    drain(app)                          what is ready now, and what that enqueues in turn
    drain(app, with_scheduled=True)     also what is scheduled: the clock jumps to each due time
    drain(app, until="30d")             everything until then, where the clock ends

Jumping goes from due time to due time, so every slot of a schedule fires in its time. A clock that
the test advances past many slots makes *missed* ones of them, as an outage would, and what becomes
of those is the schedule's catch-up policy. Slots to come are no reason to jump by themselves, since
there is no last one: without a time to drain until, they fire while there is anything scheduled.

The order is that of a worker with one seat: by priority and age within a queue, queues in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from windlass.app import Windlass
from windlass.client import Run
from windlass.domain.run import Backlog, RunRecord, SweepReply
from windlass.domain.scheduling.rows import DueReply
from windlass.domain.scheduling.rules import parse_moment
from windlass.domain.states import Status
from windlass.duration import Duration, parse_duration
from windlass.testing.faces import Procedure, Work, aperform, perform, refuse_inside_loop
from windlass.testing.places import clock_of
from windlass.testing.worker import LoneWorker

LIMIT = 1000

Until = Literal["idle"] | Duration | datetime


class EndlessDrain(AssertionError):
    """A drain has made as many attempts as it may, and there is more to do."""

    def __init__(self, limit: int, jobs: str) -> None:
        super().__init__(limit, jobs)
        self.limit = limit
        self.jobs = jobs

    def __str__(self) -> str:
        return (
            f"After {self.limit} attempts and jumps of the clock there is more to do (most often: "
            f"{self.jobs}). A job that snoozes or enqueues itself may have no end: drain until a "
            "time (until='30d'), or give a greater limit."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What a drain did: each run that it tried, as it then stood, in the order of its first try.

    `expired`, `overrun` and `crashed` count the runs that ended without one: they had waited too
    long, were not done by their deadline, or their worker was dead once too often. `left` is what
    there is still to do, of jobs that this application does not have included.
    """

    runs: Sequence[Run]
    attempts: int
    expired: int
    overrun: int
    crashed: int
    left: Backlog

    @property
    def succeeded(self) -> Sequence[Run]:
        """Those that succeeded."""
        return self._with(Status.SUCCEEDED)

    @property
    def failed(self) -> Sequence[Run]:
        """Those that failed for good."""
        return self._with(Status.FAILED)

    @property
    def canceled(self) -> Sequence[Run]:
        """Those that were canceled."""
        return self._with(Status.CANCELED)

    @property
    def scheduled(self) -> Sequence[Run]:
        """Those that go on later: they failed, snoozed, or sleep."""
        return self._with(Status.SCHEDULED)

    @property
    def waiting(self) -> Sequence[Run]:
        """Those that wait for a signal."""
        return self._with(Status.WAITING)

    def check(self) -> "Drained":
        """Raise AssertionError, with the errors, if a run did not succeed; else return itself."""
        __tracebackhide__ = True
        bad = [run for run in self.runs if run.status is not Status.SUCCEEDED]
        if bad or any(count for count, _ in self._untried()):
            raise AssertionError("\n".join([str(self), *map(_described, bad)]))
        return self

    def __str__(self) -> str:
        states = ("succeeded", "failed", "canceled", "scheduled", "waiting")
        found = [f"{len(getattr(self, s))} {s}" for s in states if getattr(self, s)]
        found += [f"{n} {what}" for n, what in self._untried() if n]
        attempts, runs = _count(self.attempts, "attempt"), _count(len(self.runs), "run")
        return f"{attempts} of {runs}: {', '.join(found) or 'nothing'}"

    def _untried(self) -> Sequence[tuple[int, str]]:
        return (
            (self.expired, "expired"),
            (self.overrun, "past their deadline"),
            (self.crashed, "crashed"),
        )

    def _with(self, status: Status) -> Sequence[Run]:
        return [run for run in self.runs if run.status is status]


def drain(
    app: Windlass, *, until: Until = "idle", with_scheduled: bool = False, limit: int = LIMIT
) -> Drained:
    """Run what is ready until nothing is; see the top of this module for the options.

    Raises EndlessDrain after `limit` attempts and jumps. Failures of handlers are recorded, as by
    a worker: look at the report, or call its `check()`.
    """
    refuse_inside_loop("drain")
    draining = _Draining(app, until, with_scheduled, limit)
    return perform(app.store, draining.run(), draining.worker.leave())


async def adrain(
    app: Windlass, *, until: Until = "idle", with_scheduled: bool = False, limit: int = LIMIT
) -> Drained:
    """As `drain`, in async code."""
    draining = _Draining(app, until, with_scheduled, limit)
    return await aperform(app.store, draining.run(), draining.worker.leave())


@dataclass(slots=True)
class _DrainTally:
    tried: dict[str, str] = field(default_factory=dict)  # runs and their jobs
    jobs: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    jumps: int = 0
    expired: int = 0
    overrun: int = 0
    crashed: int = 0


class _Draining:
    """One drain."""

    def __init__(self, app: Windlass, until: Until, with_scheduled: bool, limit: int) -> None:
        self._app = app
        self._clock = clock_of(app)
        self._end = _end(until, self._clock.now())
        self._jumping = with_scheduled or self._end is not None
        self._limit = limit
        self._tally = _DrainTally()
        self.worker = LoneWorker(app)

    def run(self) -> Procedure[Drained]:
        yield from self.worker.arrive()
        while True:
            following = yield from self._move()
            ran = yield from self._run_ready()
            if ran or following is None:
                continue  # what ran may have made more, or timers
            if not (yield from self._jump(following)):
                return (yield from self._report())

    def _move(self) -> Procedure["_Following | None"]:
        """Do what time does; returns what follows, or None where there is more to be done now."""
        swept: SweepReply = yield from self.worker.sweep()
        self._tally.expired += swept.expired
        self._tally.overrun += swept.overrun
        self._tally.crashed += swept.crashed
        yield from self.worker.tidy()
        due: DueReply = yield self._app.store.operations.due_schedules(1)
        planned = (due.rows or due.waiting) and (yield from self.worker.plan())
        return None if swept.more or planned else _Following(swept.next_due, due.next_slot)

    def _run_ready(self) -> Procedure[bool]:
        before = self._tally.attempts
        while (claimed := (yield from self.worker.take())) is not None:
            self._count(claimed.job)
            self._tally.attempts += 1
            self._tally.tried.setdefault(claimed.id, claimed.job)
            finish = yield from self.worker.attempt(self.worker.hold(claimed))
            yield from self.worker.record(finish)
        return self._tally.attempts > before

    def _jump(self, following: "_Following") -> Procedure[bool]:
        """Go to the next due time; false where there is none, or none that is wanted."""
        now, end = self._clock.now(), self._end
        times = [t for t in (following.timer, following.slot) if t is not None and t > now]
        if end is None:
            # A schedule has a next slot for ever; what has an end is what is scheduled.
            if not self._jumping or following.timer is None or not times:
                return False
            target = min(times)
        else:
            target = min([*times, end])
        if target <= now:
            return False
        self._count("")
        # Not on a loop: who hears of it stores the schedules that the application declares.
        yield Work(call=partial(self._clock.travel, target))
        return True

    def _count(self, job: str) -> None:
        tally = self._tally
        tally.jumps += not job
        if job:
            tally.jobs[job] = tally.jobs.get(job, 0) + 1
        if tally.attempts + tally.jumps >= self._limit:
            most = max(tally.jobs, key=lambda name: tally.jobs[name], default="no job at all")
            raise EndlessDrain(self._limit, most)

    def _report(self) -> Procedure[Drained]:
        tally, operations = self._tally, self._app.store.operations
        ids = list(tally.tried)
        records: Sequence[RunRecord] = (
            (yield operations.get_runs(self._app.settings.tenant, ids)) if ids else ()
        )
        found = {record.id: Run(self._app.scope, record) for record in records}
        left: Backlog = yield operations.backlog(None, None)
        return Drained(
            runs=[found[run] for run in ids if run in found],
            attempts=tally.attempts,
            expired=tally.expired,
            overrun=tally.overrun,
            crashed=tally.crashed,
            left=left,
        )


@dataclass(frozen=True, slots=True)
class _Following:
    timer: datetime | None
    slot: datetime | None


def _end(until: Until, now: datetime) -> datetime | None:
    if until == "idle":
        return None
    if isinstance(until, datetime):
        return parse_moment("until", until)
    return now + timedelta(seconds=parse_duration(until))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _described(run: Run) -> str:
    error = run.error
    what = f"  {run.job} {run.id}: {run.status.value}"
    if error is None:
        return what
    trace = "\n".join(f"    {line}" for line in (error.traceback or "").splitlines())
    return f"{what}, {error.type}: {error.message}\n{trace}".rstrip()
