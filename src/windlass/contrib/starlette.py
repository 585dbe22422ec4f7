"""A lifespan for Starlette and FastAPI (or any ASGI framework that takes one).

    api = FastAPI(lifespan=lifespan(app))                   # with a worker in this process
    api = FastAPI(lifespan=lifespan(app, worker=False))     # enqueues only

The server has the signals: on SIGTERM it finishes its requests, then ends the lifespan, and the
worker drains. The frameworks themselves are not imported: they call what they are given.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Unpack

from windlass.app import Windlass
from windlass.config import WorkerChanges
from windlass.testing.clock import VirtualClock

# As loose as can be: Starlette has two types, with state and without, and takes no union of them.
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(
    app: Windlass,
    inner: Lifespan | None = None,
    *,
    worker: bool = True,
    wait: bool = True,
    services: bool = True,
    **changes: Unpack[WorkerChanges],
) -> Lifespan:
    """A lifespan that runs a worker, around a lifespan of your own if that is given.

    Yours begins before the worker and ends after it, so that handlers find what it has opened. The
    options are those of `app.running`; without `worker`, connections are closed at the end. In
    tests, on a virtual clock, there is no worker: runs wait for `drain`.
    """

    @asynccontextmanager
    async def around(host: object) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            state = None if inner is None else await stack.enter_async_context(inner(host))
            if worker and not isinstance(app.sources.clock, VirtualClock):
                running = app.running(wait=wait, services=services, **changes)
                await stack.enter_async_context(running)
            else:
                stack.push_async_callback(app.aclose)
            yield state

    return around
