"""The scheduler: slots that are due become runs.

It asks the store which schedules are due, decides what becomes of their slots, and has the store
write that. Any number may do so at once: the store lets one of them move a schedule, and a slot
makes one run. The second one gets the answer ``lost``, waits a moment, and asks again.

Time is the store's alone. What this process believes the time to be decides when it asks, so a
clock that is wrong asks too early, which finds nothing, or too late by at most `LOOK_AGAIN`.

Between slots it does nothing. It sleeps until the next one, and is woken when a schedule is made or
changed. A wake-up may be lost, so it looks again after `LOOK_AGAIN`. Where slots wait for the end
of an earlier run it looks every `poll` seconds, since the end of a run wakes nobody.

What happens when it dies here:

- before the store has written: the schedule is due as before, and another scheduler's;
- after that, before the runs are announced: they are in their queues, and the workers' polling
  finds them. A transport sends again what was never published.

When a process starts, its scheduler moves slots to come where today's zone data have them, and,
after what is due, forgets the record of schedules whose deletion was interrupted, piece by piece.

A schedule that somebody has locked is passed over by the store, and comes back as ``lost``. If
something else is locked, such as a run that ``cancel_running`` is to end, the store gives up on the
call soon: then each decision goes by itself, and the one that is held up is left for some seconds.

A schedule that cannot be read (its zone has left the zone data), or whose run the store cannot
hold, is reported once and left as it is, and the others go on: it is due until somebody changes it,
or a worker with other zone data fires it. Now and then it is tried again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from windlass.domain.run import JobRow, RunRef
from windlass.domain.scheduling.firing import decide, realign
from windlass.domain.scheduling.rows import (
    Decision,
    DueReply,
    Fired,
    FiredRun,
    ScheduleRef,
    ScheduleRow,
)
from windlass.domain.states import Status
from windlass.engine.environment import Environment
from windlass.engine.service import News, Service
from windlass.engine.signals import Signal
from windlass.errors import (
    BadOption,
    SchemaMismatch,
    StoreBusy,
    StoreRefused,
    UsageError,
    WindlassError,
)
from windlass.logs import steady_log
from windlass.transport.interface import encode_message

log = steady_log(__name__)

Name = tuple[str, str]  # tenant and id

LIMIT = 500
LOOK_AGAIN = 10.0
_LOST = 0.1
_LONGEST_LOST = 1.0
_ENOUGH_HELD = 3  # decisions held up one after another, and it probably is a table
_JOBS_KEPT = 5.0
_MOST_TOLD = 10_000
_TRY_AGAIN = 60.0  # what could not be fired
_HELD = 5.0  # what somebody has locked: each try costs the others half a second
_REFUSED = (StoreRefused, UsageError)  # what is wrong with a decision itself, at any moment
_EARLY = timedelta(milliseconds=1)  # a timer may end a little before its time


class Scheduler(Service):
    """Makes runs of slots."""

    # Somebody made or changed a schedule.
    wakes_on: ClassVar[Mapping[News, float]] = {News.STORE_CHANGED: 1.0, News.JOBS_STORED: 0.0}

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._poll = environment.options.poll
        self._unfit: dict[Name, int] = {}  # schedules that cannot be fired, and their versions
        self._told: dict[Name, int] = {}  # those that were reported
        self._try_again = 0.0
        self._lost = 0  # looks in a row at which somebody else was at a schedule
        self._held: dict[Name, float] = {}  # schedules that are held up, and until when to wait
        self._jobs: dict[tuple[str, str], JobRow | None] = {}
        self._jobs_read = -_JOBS_KEPT
        self._begun = False
        self._next_release = 0.0
        self._next_forget: float | None = 0.0  # None: nothing is left of what others deleted
        self.fired: Signal[Sequence[FiredRun]] = Signal()

    async def work(self) -> float:
        """Fire what is due; sleep until the next slot."""
        if not self._begun:
            await self._align()
            self._begun = True
        passed = len(self._unfit) + len(self._held)
        reply = await self._store.arun(self._store.operations.due_schedules(LIMIT + passed))
        decisions = await self._decisions(reply)
        self._lost = self._lost + 1 if await self._fire(decisions) else 0
        released = await self._release() if reply.waiting else False
        if self._lost:  # the longer somebody is at it, the less often we look
            pause = min(_LOST * 2.0 ** min(self._lost - 1, 5), _LONGEST_LOST)
            return min(pause * (0.5 + self._sources.jitter()), self._pause(reply, decisions))
        if released or (reply.more and len(reply.rows) > len(self._unfit) + len(self._held)):
            return 0
        return 0 if await self._forget() else self._pause(reply, decisions)

    async def _decisions(self, reply: DueReply) -> Sequence[Decision]:
        now = self._sources.clock.monotonic()
        if now >= self._try_again:
            self._unfit, self._try_again = {}, now + _TRY_AGAIN
        due = {(row.tenant, row.id) for row in reply.rows}
        self._unfit = {name: version for name, version in self._unfit.items() if name in due}
        self._held = {name: until for name, until in self._held.items() if until > now}
        rows = [
            row
            for row in reply.rows
            if self._unfit.get((row.tenant, row.id)) != row.version
            and (row.tenant, row.id) not in self._held
        ]
        jobs = await self._jobs_of(rows)
        found = []
        for row in rows:
            try:
                job = jobs[row.tenant, row.job]
                found.append(decide(row, reply.now, job, self._sources.new_id))
            except BadOption as error:
                self._pass_over(row, error, key=row.key, job=row.job)
        return found

    async def _fire(self, decisions: Sequence[Decision]) -> bool:
        """Have them written; returns whether somebody else was at one of them."""
        written = await self._write(decisions)
        for decision, result in written:
            if decision.missed_count and not result.lost:
                extra = {"schedule": decision.id, "missed": decision.missed_count}
                log.warning("slots missed", extra=extra)
        await self._announce([run for _, result in written for run in result.fired])
        if any(result.canceled for _, result in written):
            await self._store.anotify()  # so that their workers ask for orders now
        return any(result.lost for _, result in written)

    async def _write(self, decisions: Sequence[Decision]) -> Sequence[tuple[Decision, Fired]]:
        """Have them written; one that the store refuses must not take the others with it."""
        if not decisions:
            return ()
        try:
            reply = await self._store.arun(self._store.operations.fire_schedules(decisions))
        except _REFUSED as error:
            if len(decisions) == 1:
                (decision,) = decisions
                self._pass_over(decision, error)
                return ()
            return [pair for each in decisions for pair in await self._write([each])]
        except StoreBusy:
            return await self._write_one_by_one(decisions)
        return [*zip(decisions, reply.results, strict=True)]

    async def _write_one_by_one(
        self, decisions: Sequence[Decision]
    ) -> Sequence[tuple[Decision, Fired]]:
        """Have each written by itself; those that are held up must not hold up the others."""
        written: list[tuple[Decision, Fired]] = []
        held = 0
        for decision in decisions:
            if held >= _ENOUGH_HELD:
                written.append((decision, Fired(lost=True)))  # the next look is soon
                continue
            try:
                reply = await self._store.arun(self._store.operations.fire_schedules([decision]))
            except _REFUSED as error:
                self._pass_over(decision, error)
            except StoreBusy as error:
                held += 1
                self._leave(decision, error)
            else:
                held = 0
                written.append((decision, reply.results[0]))
        return written

    def _leave(self, decision: Decision, error: StoreBusy) -> None:
        """Leave out a schedule that somebody holds up, for a moment."""
        until = self._sources.clock.monotonic() + _HELD
        self._held[decision.tenant, decision.id] = until
        extra = {"tenant": decision.tenant, "schedule": decision.id, "error": str(error)}
        log.warning("schedule is held up", extra=extra)

    def _pass_over(
        self, what: ScheduleRow | Decision, error: WindlassError, **named: object
    ) -> None:
        """Leave out a schedule that cannot be fired, until it changes, or for a while."""
        name, version = (what.tenant, what.id), what.version
        self._unfit[name] = version
        if self._told.get(name) != version:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told[name] = version
            extra = {"tenant": what.tenant, "schedule": what.id, **named, "error": str(error)}
            log.error("schedule cannot be fired", extra=extra)

    async def _release(self) -> bool:
        """Let slots that wait have their runs; what is wrong with one does not end our work."""
        now = self._sources.clock.monotonic()
        if now < self._next_release:
            return False
        try:
            reply = await self._store.arun(self._store.operations.release_waiting(LIMIT))
        except _REFUSED as error:
            log.error("slots that wait cannot be fired", extra={"error": str(error)})
            self._next_release = now + _TRY_AGAIN
            return False
        await self._announce(reply.fired)
        return reply.more

    async def _forget(self) -> bool:
        """Forget a piece of what others deleted in part; whether there is more to do now."""
        now = self._sources.clock.monotonic()
        if self._next_forget is None or now < self._next_forget:
            return False
        try:
            more = await self._store.arun(self._store.operations.forget_slots())
        except SchemaMismatch:
            raise
        except WindlassError as error:  # housekeeping: it must not cost a slot its time
            log.warning("deleted schedules not forgotten yet", extra={"error": str(error)})
            self._next_forget = now + _TRY_AGAIN
            return False
        self._next_forget = now if more else None
        return more

    async def _announce(self, fired: Sequence[FiredRun]) -> None:
        if not fired:
            return
        if not self._transport.pulls:
            queued = [run for run in fired if run.status is Status.QUEUED]
            self._transport.publish([encode_message(RunRef(run.tenant, run.run)) for run in queued])
        self.runs_ready()
        await self._store.anotify()
        self.fired.emit(fired)

    async def _jobs_of(self, rows: Sequence[ScheduleRow]) -> dict[tuple[str, str], JobRow | None]:
        """The definitions that the runs are made by: as stored, whoever has the code."""
        now = self._sources.clock.monotonic()
        if now - self._jobs_read >= _JOBS_KEPT:
            self._jobs, self._jobs_read = {}, now
        for name in {(row.tenant, row.job) for row in rows} - self._jobs.keys():
            self._jobs[name] = await self._store.arun(self._store.operations.get_job(*name))
        return self._jobs

    async def _align(self) -> None:
        """Move slots to come where today's zone data have them: once, when a process starts."""
        after: ScheduleRef | None = None
        while True:
            page = await self._store.arun(self._store.operations.coming_schedules(after, LIMIT))
            if not page.rows:
                return
            moved = [m for m in (self._realigned(row, page.now) for row in page.rows) if m]
            if moved:
                log.info("slots moved by new zone data", extra={"schedules": len(moved)})
                await self._write(moved)
            after = page.rows[-1].ref

    def _realigned(self, row: ScheduleRow, now: datetime) -> Decision | None:
        try:
            return realign(row, now)
        except BadOption as error:
            self._pass_over(row, error, key=row.key, job=row.job)
            return None

    def _pause(self, reply: DueReply, decisions: Sequence[Decision]) -> float:
        """Until the next slot: of what was not due, or of what has just been moved to it."""
        longest = LOOK_AGAIN * (0.75 + self._sources.jitter() / 2)
        if reply.waiting:
            longest = min(longest, self._poll)
        moved = (decision.next_slot for decision in decisions)
        if self._held:
            until = min(self._held.values()) - self._sources.clock.monotonic()
            longest = max(0.0, min(longest, until))
        slots = [slot for slot in (reply.next_slot, *moved) if slot is not None]
        if not slots:
            return longest
        until_due = (min(slots) - reply.now + _EARLY).total_seconds()
        return min(max(until_due, 0.0), longest)
