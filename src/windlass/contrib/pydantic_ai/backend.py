"""Does each operation of an agent as a step of the handler around it."""

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai.durable_exec import DurableOperationId, JournalCallableOperationBackend
from pydantic_ai.exceptions import ModelHTTPError

from windlass.contrib.pydantic_ai.handler import Handler, handler_here
from windlass.contrib.pydantic_ai.names import StepName, context_of, scope_of, step_name
from windlass.contrib.pydantic_ai.options import HOPELESS, Options, StepOptions
from windlass.domain.policy import Fatal, RetryAfter

_TOO_MANY = (429, 503)
_MAY_PASS = (408, 409, 425, *_TOO_MANY)
"""Answers of 4xx that another try may not get."""


class StepBackend(JournalCallableOperationBackend[StepOptions]):
    """What Pydantic AI gives its operations to."""

    def __init__(self, *, agent: str, options: Options) -> None:
        super().__init__(agent_name=agent, config=options)
        self._agent = agent

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: StepOptions,
    ) -> object:
        """Do an operation, or return what is recorded of it."""
        handler = handler_here()
        if handler is None:
            return await body()
        context = context_of(cache_key)
        agent_run = None if context is None else context.run_id
        scope = scope_of(self._agent, handler.run, agent_run)
        named = step_name(scope, operation_id, name, cache_key)

        async def operation() -> Any:
            try:
                return await body()
            except ModelHTTPError as error:
                raise _telling(error) from error

        asked = handler.desk.step(
            named.text, operation, (), {}, key=_turn(handler, named), **_terms(config)
        )
        return await handler.do(asked)


def _terms(options: StepOptions) -> dict[str, Any]:
    fatal = options.get("fatal", ())
    return {
        "retry": options.get("retry"),
        "max_attempts": options.get("max_attempts"),
        "timeout": options.get("timeout"),
        "fatal": (*(fatal if isinstance(fatal, tuple) else (fatal,)), *HOPELESS),
    }


def _turn(handler: Handler, named: StepName) -> str | None:
    """The key of a step. A call that is made again, such as one that people have approved, is
    another step."""
    if named.key is None:
        return None
    turn = handler.count(f"{named.text} {named.key}").partition("#")[2]
    return f"{named.key}.{turn}" if turn else named.key


def _telling(error: ModelHTTPError) -> Exception:
    """The answer of a model's server as an error that says whether, and when, to try again."""
    told = f"{type(error).__name__}: {error}"
    if 400 <= error.status_code < 500 and error.status_code not in _MAY_PASS:
        return Fatal(told)
    after = (error.headers or {}).get("retry-after")
    if error.status_code in _TOO_MANY and after is not None and after.isdecimal():
        return RetryAfter(int(after), told)
    return error
