"""What is done at most so often."""

import asyncio
from collections.abc import Callable


class Seldom:
    """Does something at most so often; what comes too soon is made up for, not forgotten."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, every: float, action: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._every = every
        self._action = action
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        """Do it now, or as soon as it may be done again."""
        if self._timer is None:
            self._timer = self._loop.call_at(self._next, self._do)

    def _do(self) -> None:
        self._timer = None
        self._next = self._loop.time() + self._every
        self._action()
