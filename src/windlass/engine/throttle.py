"""A throttle: calls that come too early are merged, not dropped."""

import asyncio
from collections.abc import Callable


class Throttle:
    """Calls `action` at most once every so many seconds; calls in between become one later call.

    Lives on the event loop on which it is called.
    """

    def __init__(self, every: float, action: Callable[[], None]) -> None:
        self._every = every
        self._action = action
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        """Call the action now, or as soon as its pause is over."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(self._next, self._act)

    def _act(self) -> None:
        self._timer = None
        self._next = asyncio.get_running_loop().time() + self._every
        self._action()
