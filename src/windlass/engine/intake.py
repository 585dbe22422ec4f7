"""The intake of a worker: wake-ups and polling, or the messages of a transport, bring it runs."""

import asyncio
import contextlib
from collections.abc import Coroutine

from windlass.engine.environment import Environment
from windlass.engine.hosts import IntakeHost
from windlass.store.interface import Wakeups
from windlass.transport.interface import decode_message

_LOOK_AGAIN = 0.025  # wake-ups are coalesced: what came just after one is found by a second look
_NO_ROOM = 0.05


class Intake:
    """The tasks that bring runs or news to a worker, and the wake-ups that they listen to."""

    def __init__(self, environment: Environment, host: IntakeHost) -> None:
        self._store, self._transport = environment.store, environment.transport
        self._host = host
        self._tasks: list[asyncio.Task[None]] = []
        self._wakeups: Wakeups | None = None

    async def start(self) -> None:
        """Listen to the store, and receive from a transport that brings runs."""
        self._wakeups = await self._store.listen()
        self.run("watch", self._watch(self._wakeups))
        if not self._transport.pulls:
            self.run("receive", self._receive())

    def run(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Run a task of the worker's until :meth:`stop`."""
        task = asyncio.create_task(work, name=f"windlass-{name}")
        task.add_done_callback(self._host.task_ended)
        self._tasks.append(task)

    async def stop(self, other: asyncio.Task[None] | None = None) -> None:
        """End all tasks, another one as well, and listen no more."""
        tasks = self._tasks if other is None else [*self._tasks, other]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            if self._wakeups is not None:
                await self._wakeups.close()

    async def _watch(self, wakeups: Wakeups) -> None:
        """Look when woken, and again a little later; poll where there is no wake-up for long."""
        loop = asyncio.get_running_loop()
        while True:
            if await wakeups.wait(self._host.poll_every):
                self._host.woken()
                loop.call_later(_LOOK_AGAIN, self._host.woken)
            else:
                self._host.runs_ready()

    async def _receive(self) -> None:
        """Take run ids from the transport, as many as there are seats."""
        while True:
            free = self._host.room()
            if free == 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_NO_ROOM):
                        await self._host.seat_freed()
                continue
            messages = await self._transport.receive(free)
            runs = tuple(run for run in map(decode_message, messages) if run is not None)
            if runs:
                self._host.delivered(runs)
