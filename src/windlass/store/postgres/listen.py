"""Wake-ups by LISTEN and NOTIFY: hints without data, so losing one costs a poll, no more.

A task holds a connection of its own. While it cannot listen (no direct way to the server, a
pooler that does not pass notifications on, the server is down) it tries again now and then, and
the workers poll.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import psycopg

from windlass.sources import Sources
from windlass.store.postgres.addresses import with_addresses
from windlass.store.postgres.connections import whole
from windlass.store.postgres.database_errors import one_line
from windlass.store.postgres.naming import settle_in
from windlass.store.postgres.target import Target
from windlass.store.queries import load_queries

log = logging.getLogger(__name__)

_PAUSE = 2.0


class PostgresWakeups:
    """An event that NOTIFY, or this process itself, sets."""

    def __init__(
        self, target: Target, sources: Sources, forget: "Callable[[PostgresWakeups], None]"
    ) -> None:
        """On the running loop. `forget` is called when there is nobody to wake any more."""
        self._target = target
        self._sources = sources
        self._forget = forget
        self._sql = load_queries("postgres")
        self._event = asyncio.Event()
        self._calling = False
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._listen())
        self.listening = asyncio.Event()

    async def wait(self, timeout: float) -> bool:
        """Return true when woken, false after ``timeout`` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
        woken = self._event.is_set()
        self._event.clear()
        return woken

    def wake(self) -> None:
        """Wake from within the process, from any thread."""
        if self._calling:
            return  # it was called and has not come round to it yet
        self._calling = True
        try:
            self._loop.call_soon_threadsafe(self._called)
        except RuntimeError:
            self._forget(self)  # its loop is closed

    async def close(self) -> None:
        """Stop listening."""
        self._forget(self)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def close_from(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop listening, asked on a loop that may be another one: only its own may touch it.

        One of another loop that runs belongs to who works there, and goes on.
        """
        if self._loop is loop:
            await self.close()
        elif self._loop.is_closed():
            self._forget(self)
        elif not self._loop.is_running():
            self._forget(self)
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)  # when it goes on, if it does

    def _called(self) -> None:
        self._calling = False
        self._event.set()

    async def _listen(self) -> None:
        while True:
            try:
                conninfo = await with_addresses(self._target.listen)
                async with await whole(
                    psycopg.AsyncConnection.connect(conninfo, autocommit=True)
                ) as conn:
                    settle_in(conn, self._target.schema)
                    await conn.execute(self._sql["listen"])
                    self.listening.set()
                    # What became ready before we listened was not told to us.
                    self._event.set()
                    async for _ in conn.notifies():
                        self._event.set()
            except psycopg.Error as error:
                log.debug("not listening, polling instead", extra={"error": one_line(error)})
            finally:
                self.listening.clear()
            # Whoever lost the server lost it together: they must not all come back at once.
            await asyncio.sleep(_PAUSE * (0.5 + self._sources.jitter()))
