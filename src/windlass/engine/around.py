"""What runs around each attempt: middleware (`windlass/middleware.py`), and hooks of integrations.

A hook has two faces, because a handler does. Around a sync handler its blocking face runs in the
handler's thread (or in the child process, if the handler runs there); around an async handler its
awaited face runs in the handler's task. A hook is part of the attempt: what it raises, the attempt
ends by, and its time counts.

An application without hooks pays for one look at an empty list.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
)
from typing import Any, NoReturn, Protocol

from windlass.context import Context, SyncContext


class Around(Protocol):
    """A hook around attempts."""

    def blocking(self, ctx: SyncContext, /) -> AbstractContextManager[object]:
        """Entered before a sync handler is called, and left after it, in its thread."""

    def awaited(self, ctx: Context, /) -> AbstractAsyncContextManager[object]:
        """Entered before an async handler is called, and left after it, in its task."""


Handler = Callable[..., Any]


def surrounded(handler: Handler, hooks: Sequence[Around], ctx: SyncContext) -> Handler:
    """A sync handler with its hooks around it, the first one outermost."""

    def call(*args: Any, **kwargs: Any) -> Any:
        process = os.getpid()
        with ExitStack() as stack:
            for hook in hooks:
                stack.enter_context(hook.blocking(ctx))
            try:
                return handler(*args, **kwargs)
            finally:
                if os.getpid() != process:
                    leave_fork(sys.exc_info()[1])  # what the hooks would close is the worker's

    return call


def asurrounded(handler: Handler, hooks: Sequence[Around], ctx: Context) -> Handler:
    """An async handler with its hooks around it, the first one outermost."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        process = os.getpid()
        async with AsyncExitStack() as stack:
            for hook in hooks:
                await stack.enter_async_context(hook.awaited(ctx))
            try:
                return await handler(*args, **kwargs)
            finally:
                if os.getpid() != process:
                    leave_fork(sys.exc_info()[1])

    return call


def leave_fork(error: BaseException | None = None) -> NoReturn:
    """A handler has forked, and this is the copy: neither the run nor the worker is its own.

    It ends as a forked process should, without what Python does at exit, which would be done to
    connections and files of the worker.
    """
    code = getattr(error, "code", 1) if isinstance(error, SystemExit) else int(error is not None)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code if isinstance(code, int) else int(code is not None))
