"""How often steps of an agent are tried, and for how long."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, cast

from pydantic.errors import PydanticUserError
from pydantic_ai.durable_exec import (
    DurableOperationId,
    OperationConfigRole,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
)
from pydantic_ai.exceptions import UserError

from windlass.domain.job import check_max_attempts
from windlass.domain.policy import ErrorTypes, Retry
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption

METADATA = "windlass"
"""Where a tool's metadata has its own options."""

HOPELESS: tuple[type[Exception], ...] = (UserError, PydanticUserError)
"""Mistakes of the program: the next try would end the same way."""


class StepOptions(TypedDict, total=False):
    """The options of `ctx.step`, for steps of an agent; what is left out is as in its job."""

    retry: Retry
    max_attempts: int
    timeout: Duration
    fatal: ErrorTypes


def check_options(option: str, given: object) -> StepOptions:
    """Return options that steps may have. Raises BadOption."""
    if given is None:
        return StepOptions()
    if not isinstance(given, Mapping):
        raise BadOption(option, f"it must be a dict of options, not {type(given).__name__}")
    unknown = sorted(str(key) for key in given.keys() - StepOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(StepOptions.__annotations__)
        raise BadOption(option, f"{unknown[0]!r} is not one of {known}")
    if not isinstance(given.get("retry", Retry()), Retry):
        raise BadOption(option, "retry must be a Retry, such as Retry.exponential()")
    if "max_attempts" in given:
        check_max_attempts(given["max_attempts"])
    if "timeout" in given:
        parse_duration(given["timeout"])
    Retry().with_fatal(given.get("fatal", ()))
    return cast(StepOptions, dict(given))


class Options:
    """Which options each operation has: the protocol `DurableOperationConfig`."""

    def __init__(
        self, *, model: StepOptions, tool: StepOptions, mcp: StepOptions, event: StepOptions
    ) -> None:
        self._roles: Mapping[OperationConfigRole, StepOptions] = {
            "model": model,
            "tool": tool,
            "event": event,
            "capability": StepOptions(),
        }
        self._mcp = mcp

    def base(self, role: OperationConfigRole, *, operation_id: DurableOperationId) -> StepOptions:
        """Those of an operation."""
        match operation_id:
            case (
                ToolsetGetInstructionsId()
                | ToolsetGetToolsId(toolset_kind="mcp")
                | ToolsetCallToolId(toolset_kind="mcp")
            ):
                return self._mcp
            case _:
                return self._roles[role]

    def for_tool(
        self,
        role: OperationConfigRole,
        *,
        operation_id: DurableOperationId,
        tool: object | None,
        tool_name: str,
    ) -> StepOptions | Literal[False]:
        """Those of one tool; False if its calls are not to be steps."""
        base = self.base(role, operation_id=operation_id)
        definition: Any = getattr(tool, "tool_def", None)
        own = (getattr(definition, "metadata", None) or {}).get(METADATA)
        if own is None:
            return base
        if own is False:
            return False
        return StepOptions(**{**base, **check_options(f"{METADATA} of {tool_name}", own)})
