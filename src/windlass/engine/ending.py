"""The end of something that has many parts, each of which must be ended whatever becomes of others.

If a step fails, its error is reported and the next step is taken. If the caller is canceled while a
step waits, that step is not waited for any longer, and the next one is taken. So the end is in good
order where it can be, and comes soon where it must.
"""

import asyncio
from collections.abc import Awaitable, Callable


class Ending:
    """Takes steps, one after another."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._canceled: asyncio.CancelledError | None = None

    async def step(self, work: Awaitable[object]) -> None:
        """Take a step; return when it is done, has failed, or is not waited for."""
        try:
            await work
        except asyncio.CancelledError as error:
            self._canceled = error
        except Exception as error:  # noqa: BLE001 - `failed` keeps it; what is left must be ended too
            self._failed(error)

    def over(self) -> None:
        """After the last step: raises CancelledError where one of them was cut short by it."""
        if self._canceled is not None:
            raise self._canceled
