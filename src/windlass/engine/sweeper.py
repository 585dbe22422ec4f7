"""The sweeper: dispatcher, expiry and reaper as one service, in one round trip.

- The *dispatcher* moves runs whose time has come to their queues, and publishes them where a
  transport is used; it also sends again what a transport lost. It looks at runs whose children
  have ended (`domain/child.py`).
- *Expiry* ends runs that waited too long for their first start, or were not done by their deadline.
- The *reaper* takes runs back from workers that are dead.

Every worker has one; none is special, and any number may run at once: each skips what another
has locked, and a run moves once whoever moves it. It sleeps until the next timer is due, at most
`poll` seconds, so an idle process asks about once a second.

An outage of the database is not a crash of the workers, and neither is a clock that was set. Every
sweep leaves a mark in the store; after a gap between two marks the store spares workers whose time
is over, and runs that have expired, for two thirds of a lease. So a sweeper that has just started
knows as much as any other.
"""

from collections.abc import Mapping
from typing import ClassVar

from windlass.domain.run import SweepReply
from windlass.engine.environment import Environment
from windlass.engine.service import News, Service
from windlass.engine.signals import Signal
from windlass.logs import steady_log
from windlass.transport.interface import encode_message

log = steady_log(__name__)

LIMIT = 500


class Sweeper(Service):
    """Moves what time moves."""

    # Somebody enqueued a run for later, but soon; or one of ours is to be tried again.
    wakes_on: ClassVar[Mapping[News, float]] = {
        News.STORE_CHANGED: 0.25,
        News.RUN_DUE: 0.0,
        News.CHILD_ENDED: 0.01,
    }

    def __init__(
        self, environment: Environment, *, dispatch: bool = True, reap: bool = True
    ) -> None:
        super().__init__(environment)
        options = environment.options
        self._sweep = options.sweep
        self._poll = min(options.poll, options.sweep)
        self._max_crashes = options.max_crashes
        self._resend_after = options.resend_after
        self._dispatch = dispatch
        self._reap = reap
        self._next_reap = 0.0
        self._spared = 0
        self._next_resend = 0.0
        self.swept: Signal[SweepReply] = Signal()

    async def work(self) -> float:
        """Sweep once; sleep until the next timer is due."""
        clean_up = self._sources.clock.monotonic() >= self._next_reap
        reply = await self._store.arun(
            self._store.operations.sweep(
                dispatch=self._dispatch,
                expire=self._dispatch and clean_up,
                reap=self._reap and clean_up,
                max_crashes=self._max_crashes,
                limit=LIMIT,
                every=self._poll,
            )
        )
        if clean_up:
            # Of many that expired or died together, each sweep takes a part.
            cleaned = reply.expired or reply.overrun or reply.reaped or reply.crashed
            pause = 0 if reply.more and cleaned else self._sweep
            self._next_reap = self._sources.clock.monotonic() + pause
            self._log_spared(reply.spared)
        await self._announce(reply)
        self.swept.emit(reply)
        return self._pause(reply)

    def _log_spared(self, workers: int) -> None:
        if workers > self._spared:
            log.warning("workers spared after an outage", extra={"workers": workers})
        self._spared = workers

    async def _announce(self, reply: SweepReply) -> None:
        if reply.workers or reply.reaped or reply.crashed:
            extra = {
                "workers": ", ".join(reply.workers),
                "back": reply.reaped,
                "failed": reply.crashed,
            }
            log.warning("runs of dead workers taken back", extra=extra)
        if reply.expired:
            log.warning("runs expired", extra={"runs": reply.expired})
        if reply.overrun:
            log.warning("runs not done by their deadline", extra={"runs": reply.overrun})
        if reply.dispatched and not self._transport.pulls:
            self._transport.publish([encode_message(run) for run in reply.dispatched])
        if reply.dispatched or reply.reaped or reply.asked:
            await self._store.anotify()
        if reply.dispatched or reply.reaped or reply.crashed or reply.expired or reply.overrun:
            self.runs_ready()  # of those that failed, their handlers' runs may be
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
