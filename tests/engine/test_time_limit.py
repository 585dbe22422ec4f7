"""Time limits in a task that was canceled before, which is where workers need them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from windlass.engine.time_limit import time_limit


async def canceled_before() -> asyncio.Task[None]:
    """Cancel the task that runs this, and let it go on all the same."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    assert task.cancelling() == 1
    return task


async def wait(seconds: float, start: Callable[[], object] = lambda: None) -> None:
    """Start something, and wait for nothing that could come, within a limit."""
    async with time_limit(seconds):
        start()
        await asyncio.Event().wait()


async def test_the_limit_of_a_task_that_was_canceled_before() -> None:
    task = await canceled_before()

    with pytest.raises(TimeoutError):
        await wait(0)
    assert task.cancelling() == 1


async def test_a_cancel_within_the_limit_is_no_timeout() -> None:
    task = await canceled_before()

    with pytest.raises(asyncio.CancelledError):
        await wait(60, task.cancel)
    assert task.cancelling() == 2


async def test_a_cancel_that_comes_with_the_limit_counts() -> None:
    task = await canceled_before()
    loop = asyncio.get_running_loop()

    with pytest.raises(asyncio.CancelledError):
        await wait(0, lambda: loop.call_soon(task.cancel))
    assert task.cancelling() == 2


async def test_what_is_done_in_time_has_no_limit() -> None:
    async with time_limit(60):
        await asyncio.sleep(0)
