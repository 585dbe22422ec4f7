"""The scheduler: slots that are due become runs.

It asks the store which schedules are due, decides what becomes of their slots, and has the store
write that. Any number may do so at once: the store lets one of them move a schedule, and a slot
makes one run. One that comes second is told (``lost``), waits a moment, and asks again.

Time is the store's alone. What this process believes the time to be decides when it asks, so a
clock that is wrong asks too early, which finds nothing, or too late by at most `LOOK_AGAIN`.

Between slots it does nothing. It sleeps until the next one, and is woken when a schedule is made or
changed; lest a wake-up be lost, it looks again after `LOOK_AGAIN`. Where slots wait for the end of
an earlier run it looks every `poll` seconds, since the end of a run wakes nobody.

What happens when it dies here:

- before the store has written: the schedule is due as before, and another scheduler's;
- after that, before the runs are announced: they are in their queues, and the workers' polling
  finds them. A transport sends again what was never published.

A schedule that cannot be read (its zone has left the zone data) is reported once and left as it
is: it is due until somebody changes it, or a worker with other zone data fires it.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from windlass.domain.firing import decide, realign
from windlass.domain.run import JobRow, RunRef
from windlass.domain.states import Status
from windlass.domain.timetable import Decision, DueReply, FiredRun, ScheduleRef, ScheduleRow
from windlass.engine.service import Service
from windlass.errors import BadOption
from windlass.logs import steady_log
from windlass.sources import Sources
from windlass.store.interface import Store
from windlass.transport.interface import Transport, encode_message

log = steady_log(__name__)

LIMIT = 500
LOOK_AGAIN = 10.0
_LOST = 0.1
_JOBS_KEPT = 5.0
_EARLY = timedelta(milliseconds=1)  # a timer may end a little before its time


class Scheduler(Service):
    """Makes runs of slots."""

    def __init__(
        self,
        store: Store,
        sources: Sources,
        transport: Transport,
        *,
        poll: float,
        fired: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(sources)
        self._store = store
        self._transport = transport
        self._poll = poll
        self._fired = fired
        self._unread: dict[str, int] = {}  # schedules that cannot be read, and their versions
        self._jobs: dict[tuple[str, str], JobRow | None] = {}
        self._jobs_read = -_JOBS_KEPT
        self._aligned = False
        self.looks = 0

    async def work(self) -> float:
        """Fire what is due; sleep until the next slot."""
        if not self._aligned:
            await self._align()
            self._aligned = True
        schedules = self._store.schedules
        self.looks += 1
        reply = await self._store.arun(schedules.due(LIMIT + len(self._unread)))
        lost = await self._fire(await self._decisions(reply))
        released = await self._release() if reply.waiting else False
        if lost:
            return _LOST * (0.5 + self._sources.jitter())
        if released or (reply.more and len(reply.rows) > len(self._unread)):
            return 0
        return self._pause(reply)

    async def _decisions(self, reply: DueReply) -> Sequence[Decision]:
        if not reply.rows:
            self._unread.clear()
            return ()
        jobs = await self._jobs_of(reply.rows)
        found, unread = [], {}
        for row in reply.rows:
            try:
                job = jobs[row.tenant, row.job]
                found.append(decide(row, reply.now, job, self._sources.new_id))
            except BadOption as error:
                unread[row.id] = row.version
                if self._unread.get(row.id) != row.version:
                    _report(row, error)
        self._unread = unread
        return found

    async def _fire(self, decisions: Sequence[Decision]) -> bool:
        """Have them written; returns whether somebody else was at one of them."""
        if not decisions:
            return False
        reply = await self._store.arun(self._store.schedules.fire(decisions))
        for decision, result in zip(decisions, reply.results, strict=True):
            if decision.missed_count and not result.lost:
                extra = {"schedule": decision.id, "missed": decision.missed_count}
                log.warning("slots missed", extra=extra)
        await self._announce([run for result in reply.results for run in result.fired])
        if any(result.canceled for result in reply.results):
            await self._store.anotify()  # so that their workers ask for orders now
        return any(result.lost for result in reply.results)

    async def _release(self) -> bool:
        reply = await self._store.arun(self._store.schedules.release_waiting(LIMIT))
        await self._announce(reply.fired)
        return reply.more

    async def _announce(self, fired: Sequence[FiredRun]) -> None:
        if not fired:
            return
        if not self._transport.pulls:
            queued = [run for run in fired if run.status is Status.QUEUED]
            self._transport.publish([encode_message(RunRef(run.tenant, run.run)) for run in queued])
        if self._fired is not None:
            self._fired()
        await self._store.anotify()

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
            page = await self._store.arun(self._store.schedules.coming(after, LIMIT))
            if not page.rows:
                return
            moved = [m for m in (_realigned(row, page.now) for row in page.rows) if m is not None]
            if moved:
                log.info("slots moved by new zone data", extra={"schedules": len(moved)})
                await self._store.arun(self._store.schedules.fire(moved))
            after = page.rows[-1].ref

    def _pause(self, reply: DueReply) -> float:
        longest = LOOK_AGAIN * (0.75 + self._sources.jitter() / 2)
        if reply.waiting:
            longest = min(longest, self._poll)
        if reply.next_slot is None:
            return longest
        until_due = (reply.next_slot - reply.now + _EARLY).total_seconds()
        return min(max(until_due, 0.0), longest)


def _realigned(row: ScheduleRow, now: datetime) -> Decision | None:
    try:
        return realign(row, now)
    except BadOption as error:
        _report(row, error)
        return None


def _report(row: ScheduleRow, error: BadOption) -> None:
    extra = {"schedule": row.id, "key": row.key, "job": row.job, "error": str(error)}
    log.error("schedule cannot be read", extra=extra)
