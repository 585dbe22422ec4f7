"""Work that may block, beside the event loop and without the loop's own threads.

A handler may shut the loop's default executor down, or fill it up: whatever of ours counts on it
would then fail, or wait, until the process is started again. Its threads are also waited for when
the loop ends, however long that takes. So each call here has a thread of its own, a daemon.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def off_loop(action: Callable[[], T], name: str) -> T:
    """Do what may block, in a thread of this name, with the caller's context."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    context = contextvars.copy_context()

    def settle(error: BaseException | None, value: Any) -> None:
        if not done.done():
            done.set_result((error, value))

    def work() -> None:
        error, value = None, None
        try:
            value = context.run(action)
        except BaseException as raised:  # noqa: BLE001 - foreign code: raised again on the loop
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(settle, error, value)

    threading.Thread(target=work, name=name, daemon=True).start()
    error, value = await done
    if error is not None:
        raise error
    given: T = value
    return given
