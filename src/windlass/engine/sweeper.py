"""The sweeper: dispatcher, expiry and reaper as one service, in one round trip.

- The *dispatcher* moves runs whose time has come to their queues, and publishes them where a
  transport is used; it also sends again what a transport lost.
- *Expiry* ends runs that waited too long.
- The *reaper* takes runs back from workers that are dead.

Every worker has one; none is special, and any number may run at once: each skips what another
has locked, and a run moves once whoever moves it. It sleeps until the next timer is due, at most
`poll` seconds, so an idle process asks about once a second.

An outage of the database is not a crash of the workers. Once an outage is over, or a stretch in
which this process itself did not run (a suspended machine), nothing is reaped for two thirds of a
lease: time for the others to renew. A sweep that had to wait for long counts as an outage. The
store does the same after its own start, and in a call that comes late.

Nor is a clock that was set. Between two sweeps the store's clock should move as far as our own
monotonic one; each sweep says what time it believes it to be, and where the store's clock is ahead
of that, nothing is reaped then and for two thirds of a lease, as after an outage.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from windlass.domain.run import SweepReply
from windlass.engine.service import Service
from windlass.logs import steady_log
from windlass.sources import Sources
from windlass.store.interface import Store
from windlass.transport.interface import Transport, encode_message

log = steady_log(__name__)

LIMIT = 500
RESEND_AFTER = 10.0


class Sweeper(Service):
    """Moves what time moves."""

    def __init__(
        self,
        store: Store,
        sources: Sources,
        transport: Transport,
        *,
        lease: float,
        sweep: float,
        poll: float,
        max_crashes: int,
        dispatch: bool = True,
        reap: bool = True,
        resend_after: float = RESEND_AFTER,
        moved: Callable[[SweepReply], None] | None = None,
    ) -> None:
        super().__init__(sources)
        self._store = store
        self._transport = transport
        self._grace = lease * 2 / 3
        self._sweep = sweep
        self._poll = min(poll, sweep)
        self._max_crashes = max_crashes
        self._dispatch = dispatch
        self._reap = reap
        self._resend_after = resend_after
        self._moved = moved
        self._last = sources.clock.monotonic()
        self._next_reap = 0.0
        self._blind = False  # the last sweep failed
        self._heard: datetime | None = None  # the store's time when it was last told
        self._next_resend = 0.0
        self.sweeps = 0

    def hear(self, now: datetime) -> None:
        """The store said what time it is: from here on we count ourselves."""
        self._heard, self._last = now, self._sources.clock.monotonic()

    def failed(self, error: Exception) -> None:
        """An outage of ours may have been everybody's."""
        self._blind = True

    async def work(self) -> float:
        """Sweep once; sleep until the next timer is due."""
        began = self._sources.clock.monotonic()
        if began - self._last > self._grace + self._poll:
            self._blind = True
        clean_up = not self._blind and began >= self._next_reap
        believed = self._believed(began)
        reply = await self._store.arun(
            self._store.operations.sweep(
                dispatch=self._dispatch,
                expire=self._dispatch and clean_up,
                reap=self._reap and clean_up,
                max_crashes=self._max_crashes,
                grace=self._grace,
                believed=believed,
                limit=LIMIT,
            )
        )
        self.hear(reply.now)
        if believed is not None and reply.now > believed + timedelta(seconds=self._grace / 2):
            self._blind = True
        if self._blind or self._last - began > self._grace / 2:
            self._next_reap = self._last + self._grace
            self._blind = False
        elif clean_up:
            # Of many that expired or died together, each sweep takes a part.
            cleaned = reply.expired or reply.reaped or reply.crashed
            self._next_reap = self._last + (0 if reply.more and cleaned else self._sweep)
        self.sweeps += 1
        await self._tell(reply)
        return self._pause(reply)

    def _believed(self, now: float) -> datetime | None:
        """What time it is in the store, by our own counting since we last heard."""
        if self._heard is None:
            return None
        return self._heard + timedelta(seconds=now - self._last)

    async def _tell(self, reply: SweepReply) -> None:
        if reply.workers or reply.reaped or reply.crashed:
            extra = {
                "workers": ", ".join(reply.workers),
                "back": reply.reaped,
                "failed": reply.crashed,
            }
            log.warning("runs of dead workers taken back", extra=extra)
        if reply.expired:
            log.warning("runs expired", extra={"runs": reply.expired})
        if reply.dispatched and not self._transport.pulls:
            self._transport.publish([encode_message(run) for run in reply.dispatched])
        if reply.dispatched or reply.reaped:
            await self._store.anotify()
        if self._moved is not None and (reply.dispatched or reply.reaped or reply.crashed):
            self._moved(reply)
        if not self._transport.pulls and self._dispatch:
            await self._send_again()

    async def _send_again(self) -> None:
        now = self._sources.clock.monotonic()
        if now < self._next_resend:
            return
        self._next_resend = now + min(self._sweep, self._resend_after)
        lost = await self._store.arun(self._store.operations.unpublished(self._resend_after, LIMIT))
        self._transport.publish([encode_message(run) for run in lost])

    def _pause(self, reply: SweepReply) -> float:
        if reply.more:
            return 0
        if reply.next_due is None:
            return self._poll
        until_due = (reply.next_due - reply.now).total_seconds()
        return min(max(until_due, 0.0), self._poll)
