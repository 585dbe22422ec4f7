"""The heart of a worker: its heartbeat, under each of its names, and the watchdog that it asks."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from windlass.engine.environment import Environment
from windlass.engine.holdings import Holdings
from windlass.engine.hosts import HeartHost
from windlass.engine.renewal import Renewal
from windlass.engine.watchdog import Blockage, Watchdog, log_apart


class Heart:
    """Keeps the leases of one worker. Lives on one event loop, and in two threads."""

    def __init__(
        self,
        environment: Environment,
        holdings: Holdings,
        host: HeartHost,
    ) -> None:
        self._environment = environment
        self._holdings = holdings
        self._options = environment.options
        self._host = host
        self._worker = ""
        self._watchdog = Watchdog(
            holdings,
            environment.sources.clock,
            lease=self._options.lease,
            worker=lambda: self._worker,
            noticed=self.hurry,
            hopeless=self._part,
        )
        self.renewal: Renewal | None = None  # under the name it has now
        self.hopeless: Callable[[], None] = lambda: None
        """Called, in a thread, when all was given back without a loop that is blocked."""

    @property
    def safe(self) -> bool:
        """Whether the leases are ours beyond doubt."""
        return self.renewal is not None and self.renewal.safe

    def start(self) -> None:
        """Watch the running loop."""
        self._watchdog.start()

    def beat(self, worker: str, since: float) -> None:
        """Renew under this name; `since`: when its registration was sent."""
        self._worker = worker
        kept = (self._environment, self._holdings, self._watchdog, self._host)
        self.renewal = Renewal(*kept, worker=worker, since=since)
        self.renewal.start()

    def hurry(self) -> None:
        """Renew now; may be called from any thread."""
        if self.renewal is not None:
            self.renewal.hurry()

    def pause(self) -> None:
        """Renew no more under this name."""
        if self.renewal is not None:
            self.renewal.stop()

    async def silence(self, deadline: float) -> None:
        """Stop and wait for a renewal on its way: the store may be closed when we are gone."""
        self.pause()
        if self.renewal is not None:
            await self.renewal.ended(max(0.1, deadline - asyncio.get_running_loop().time()))

    def stop(self) -> None:
        """End, without waiting."""
        self.pause()
        self._watchdog.stop()

    def expect_stop(self) -> None:
        """The worker was told to stop; from any thread. If its loop is blocked when the grace is
        over, it is left behind."""
        self._watchdog.expect_stop(self._options.drain)

    def _part(self, blockage: Blockage) -> None:
        extra: dict[str, object] = {"worker": self._worker}
        log_apart(logging.ERROR, "event loop blocked, leaving without it", extra)
        if self.renewal is not None:
            # A handler that blocks the loop now and then, and merely did not end in time, is not
            # to crash a little with every deployment.
            if blockage.seconds < min(self._options.lease, self._options.drain):
                blockage = replace(blockage, holding=None, anybody=False)
            self.renewal.part(blockage)
        self.hopeless()
