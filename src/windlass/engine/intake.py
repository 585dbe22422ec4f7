"""The intake of a worker: wake-ups and polling, or the messages of a transport, bring it runs."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from windlass.domain.run import RunRef
from windlass.store.interface import Store, Wakeups
from windlass.transport.interface import Transport, decode_message

_LOOK_AGAIN = 0.025  # wake-ups are coalesced: what came just after one is found by a second look
_NO_ROOM = 0.05


class Intake:
    """The tasks that bring runs or news to a worker, and the wake-ups that they listen to."""

    def __init__(self, ended: Callable[[asyncio.Task[None]], None]) -> None:
        self._ended = ended
        self._tasks: list[asyncio.Task[None]] = []
        self._wakeups: Wakeups | None = None

    async def listen(self, store: Store) -> Wakeups:
        """Begin to hear wake-ups."""
        self._wakeups = await store.listen()
        return self._wakeups

    def start(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Start one of them."""
        task = asyncio.create_task(work, name=f"windlass-{name}")
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def stop(self, other: asyncio.Task[None] | None = None) -> None:
        """End them all, another task as well, and hear nothing more."""
        tasks = self._tasks if other is None else [*self._tasks, other]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            if self._wakeups is not None:
                await self._wakeups.close()


async def watch(
    wakeups: Wakeups,
    looks: Sequence[Callable[[], None]],
    every: Callable[[], float],
    poll: Callable[[], None],
) -> None:
    """Look when woken, and again a little later; poll where there is no wake-up for long."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        for each in looks:
            each()

    while True:
        if await wakeups.wait(every()):
            look()
            loop.call_later(_LOOK_AGAIN, look)
        else:
            poll()


async def receive(
    transport: Transport,
    room: Callable[[], int],
    change: Callable[[], Awaitable[None]],
    deliver: Callable[[tuple[RunRef, ...]], None],
) -> None:
    """Take run ids from a transport, as many as there are seats."""
    while True:
        free = room()
        if free == 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NO_ROOM):
                    await change()
            continue
        messages = await transport.receive(free)
        runs = tuple(run for run in map(decode_message, messages) if run is not None)
        if runs:
            deliver(runs)
