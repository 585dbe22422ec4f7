"""When this process hints to the workers of others, by NOTIFY.

At most once in a while: a worker that was woken looks again after 25 ms by itself. So whatever is
committed within 20 ms after a hint was sent needs none of its own.

The enqueue of a single run carries its hint along, and workers hear of it with the commit. Any
other hint follows its commit, in a call of its own.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from windlass.store.postgres.statement import Statement

T = TypeVar("T")

_EVERY = 0.02


class HintPace:
    """Remembers when the last one was sent. Workers of this process need none: `wake_here` does."""

    def __init__(self, wake_here: Callable[[], None]) -> None:
        self._wake_here = wake_here
        self._next = 0.0

    def is_due(self) -> bool:
        """Whether one is to be sent; it counts as sent then."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _EVERY
        return True

    def put_on(self, statement: Statement[T]) -> Statement[T]:
        """Let a statement carry a hint along, if it can and one is due."""
        asked = time.monotonic()
        if not statement.hints or asked < self._next:
            return statement

        def sent() -> None:
            # Not since the answer came, which may have been long on its way.
            self._next = max(self._next, asked + _EVERY)
            self._wake_here()

        return statement.with_hint(sent)
