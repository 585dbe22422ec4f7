"""A program whose event loop goes down under a worker that nobody stopped."""

import asyncio

from tests.fixtures.apps import working
from windlass import AttemptOutcome, Status, Windlass


async def test_handlers_canceled_with_the_loop_are_interrupted_not_failed(app: Windlass) -> None:
    started: asyncio.Queue[asyncio.Task[None]] = asyncio.Queue()

    @app.job
    async def long() -> None:
        task = asyncio.current_task()
        assert task is not None
        started.put_nowait(task)
        await asyncio.Event().wait()

    run = long.enqueue()
    serving = asyncio.create_task(app.worker().run())
    # What asyncio.run does when its main coroutine has ended: cancel every task at once.
    handler = await started.get()
    handler.cancel()
    serving.cancel()
    await asyncio.gather(handler, serving, return_exceptions=True)
    await run.arefresh()
    assert run.status is Status.QUEUED
    assert run.failures == 0
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.INTERRUPTED]


async def test_a_handler_that_raises_cancellation_itself_has_failed(app: Windlass) -> None:
    @app.job(max_attempts=1)
    async def confused() -> None:
        raise asyncio.CancelledError

    run = confused.enqueue()
    async with working(app):
        await run.await_end(timeout=10)
    assert run.status is Status.FAILED
