"""Renewal: the heartbeat that keeps a worker's leases, in a thread of its own.

A handler that blocks the loop does not stop it, but after a lease without an answer of the loop it
vouches for child processes alone (:mod:`windlass.engine.vouching`). A process that is stopped, or
whose interpreter is held by a call into C, does stop it, and so loses its leases.

It measures from the moment a renewal is *sent*: from then on the store may count. Once two thirds
of the lease have passed without an answer, the worker starts nothing new
(:attr:`Renewal.safe`), by its own monotonic clock, whatever the wall clocks say.

If the store is away or has trouble, the heartbeat waits until it is back. Any other error ends the
heartbeat and, with it, the worker: a schema that has outgrown this program, or a bug, would be no
better next time, and a worker without heartbeat is as good as dead. Where the worker's loop has
closed there is nobody left to renew for.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from windlass.engine.environment import Environment
from windlass.engine.holdings import Holding, Holdings, Stop
from windlass.engine.hosts import HeartHost
from windlass.engine.time_limit import time_limit
from windlass.engine.vouching import give_up, vouch
from windlass.engine.watchdog import Blockage
from windlass.errors import SchemaMismatch, StoreError, StoreUnavailable
from windlass.logs import steady_log

log = steady_log(__name__)


class LoopWatch(Protocol):
    """Whoever knows how the event loop is."""

    @property
    def blockage(self) -> Blockage | None:
        """How the loop is blocked, if it is; from any thread."""


class Renewal:
    """Renews one worker, until stopped."""

    def __init__(
        self,
        environment: Environment,
        holdings: Holdings,
        watch: LoopWatch,
        host: HeartHost,
        *,
        worker: str,
        since: float,
    ) -> None:
        """`since` is when the registration was sent, by the monotonic clock."""
        self._store = environment.store
        self._sources = environment.sources
        self._holdings = holdings
        self._watch = watch
        self._host = host
        self._worker = worker
        self._lease = environment.options.lease
        self._every = environment.options.renew
        self._max_crashes = environment.options.max_crashes
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._stopped = threading.Event()
        self._now = threading.Event()
        self._monotonic = self._sources.clock.monotonic
        self._good_until = since + self._lease * 2 / 3
        self._thread = threading.Thread(target=self._run, name="windlass-renewal", daemon=True)

    @property
    def safe(self) -> bool:
        """Whether the lease is still ours beyond doubt."""
        return self._monotonic() < self._good_until

    def start(self) -> None:
        """Begin; the worker has just been registered."""
        self._thread.start()

    def hurry(self) -> None:
        """Renew now: there may be an order for one of our runs."""
        self._now.set()

    def part(self, blockage: Blockage) -> None:
        """Give everything back from another thread, and leave: the loop will not do it."""
        self.stop()
        standing = self._holdings.standing()
        said = give_up(self._holdings, standing, blockage, self._max_crashes, everything=True)
        operations = self._store.operations
        try:
            self._store.run(
                operations.renew(self._worker, self._lease, said.held, said.settled, said.blocked)
            )
            self._store.run(operations.retire(self._worker))
        except StoreError as error:
            extra = {"worker": self._worker, "error": str(error)}
            log.warning("leases left to run out", extra=extra)

    def stop(self) -> None:
        """End, without waiting for a renewal on its way."""
        self._stopped.set()
        self._now.set()

    async def ended(self, within: float) -> bool:
        """Wait for a renewal on its way, at most so many seconds; false: it is not back."""
        if not self._thread.is_alive():
            return True
        try:
            async with time_limit(within):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def _run(self) -> None:
        try:
            self._keep_renewing()
        except Exception as error:  # noqa: BLE001 - unheard, it would cost all leases
            self._on_loop(partial(self._host.failed, error))
        finally:
            self._on_loop(self._over.set)

    def _keep_renewing(self) -> None:
        wait = self._every
        while True:
            self._now.wait(wait)
            self._now.clear()
            if self._stopped.is_set():
                return
            # An answer that took long leaves the lease in doubt, as none does.
            wait = self._every if self._renew() and self.safe else self._soon()

    def _soon(self) -> float:
        """A quarter of the usual, more or less: a fleet that lost its store lost it at once."""
        return self._every / 4 * (0.5 + self._sources.jitter())

    def _renew(self) -> bool:
        said = vouch(self._holdings, lambda: self._watch.blockage, self._lease, self._max_crashes)
        sent = self._sources.clock.monotonic()
        call = self._store.operations.renew(
            self._worker, self._lease, said.held, said.settled, said.blocked
        )
        try:
            reply = self._store.run(call)
        except StoreUnavailable as error:
            log.warning("not renewed", extra={"worker": self._worker, "error": str(error)})
            return False
        except SchemaMismatch:
            raise
        except StoreError:
            log.exception("not renewed", extra={"worker": self._worker})
            return False
        if reply.alive:
            self._good_until = sent + self._lease * 2 / 3
        if not self._stopped.is_set():
            self._disown(said.given_up)
            self._on_loop(partial(self._host.renewed, self._worker, reply))
        return True

    def _disown(self, given_up: Sequence[Holding]) -> None:
        """Tell those that the store took: in threads at once, on the loop when it is back, and not
        only by the next renewal. By then we may have claimed the same runs again."""
        for holding in given_up:
            if holding.stop is not Stop.LOST:
                holding.stop = Stop.LOST
                self._on_loop(partial(self._host.disowned, holding.held))

    def _on_loop(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # it has closed
            self.stop()
