"""Functions that are steps by nature: `@app.step`.

Called in a handler, such a function is a durable step of that run; called anywhere else, it is just
called. Inside of a step it is a step of its own, nested.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, overload

from windlass.current import current
from windlass.domain.policy import ErrorTypes, Retry
from windlass.domain.step import check_step_name
from windlass.durable.awaited import AwaitedWork
from windlass.durable.phased import in_thread
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, UsageError

P = ParamSpec("P")
T = TypeVar("T")


class StepDecorator:
    """`@app.step`, bare or with the options of `ctx.step`."""

    @overload
    def __call__(self, function: Callable[P, T], /) -> Callable[P, T]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        fatal: ErrorTypes = (),
        key: Callable[..., str] | None = None,
    ) -> Callable[[Callable[P, T]], Callable[P, T]]: ...

    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        fatal: ErrorTypes = (),
        key: Callable[..., str] | None = None,
    ) -> Any:
        """Make a function a durable step of whichever run calls it.

        `key` makes of the arguments what tells this call from others: `key=lambda order: order.id`.
        """
        options: dict[str, Any] = {
            "retry": retry,
            "max_attempts": max_attempts,
            "timeout": None if timeout is None else parse_duration(timeout),
            "fatal": fatal,
        }

        def define(step: Callable[..., Any]) -> Callable[..., Any]:
            if not callable(step):
                raise BadOption("step", f"{step!r} is not a function")
            named = check_step_name(name or getattr(step, "__name__", None))
            return _wrapped(step, named, key, options)

        return define if function is None else define(function)


def _wrapped(
    step: Callable[..., Any],
    name: str,
    key: Callable[..., str] | None,
    options: dict[str, Any],
) -> Callable[..., Any]:
    is_async = inspect.iscoroutinefunction(step)

    def call(*args: Any, **kwargs: Any) -> Any:
        running: Any = current.get(None)
        phase = in_thread.get()
        aside = running is not None and running.spec.signature.is_async and not _on_loop()
        if running is None or (aside and phase is None):
            return step(*args, **kwargs)  # in no handler, or in a thread of one that is async
        work, desk = running.bench() if phase is None or not aside else phase
        _check_kind(name, is_async, isinstance(work, AwaitedWork))
        chosen = None if key is None else key(*args, **kwargs)
        asked = desk.step(name, step, args, kwargs, key=chosen, **options)
        return work.run(*asked)

    if not is_async:
        return functools.wraps(step)(call)

    # Not `async def`: its turn is taken when it is called, not when it is awaited.
    @functools.wraps(step)
    def acall(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        found: Coroutine[Any, Any, Any] = call(*args, **kwargs)
        return found

    return acall


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _check_kind(name: str, step_is_async: bool, handler_is_async: bool) -> None:
    if step_is_async and not handler_is_async:
        raise UsageError(f"Step {name!r} is async, and its handler is not: it cannot be awaited.")
    if handler_is_async and not step_is_async:
        raise UsageError(
            f"Step {name!r} is not async, and would block its handler: make it `async def`, or "
            f'call `await ctx.step("{name}", …)` with the plain function.'
        )
