"""What the steps of an agent are called.

An agent `support` asks for `support.model_request` and `support.tool.refund`. If the handler runs
it a second time, those steps are `support(2).model_request`, and so on, so that two that run at the
same time do not share their turns. A tool call has a key besides: the number of the model request
that asked for it, and the id that the model gave it. Ids alone would not do, since some models
begin anew with each answer.

These names are stored. To change them would let runs that are under way begin anew.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    CapabilityOperationId,
    EventStreamHandlerId,
    ModelCancelSuspendedResponseId,
    ModelCompactMessagesId,
    ModelRequestId,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
)

_UNFIT = re.compile(r"[/#()\x00-\x20\x7f]|[\ud800-\udfff]")
_LONGEST = 60


class StepName(NamedTuple):
    """The name of a step, and its key, if it has one."""

    text: str
    key: str | None = None


def fit(text: str) -> str:
    """The text as a part of a name: without what names may not have, and not too long."""
    found = _UNFIT.sub("_", text)
    if len(found) <= _LONGEST:
        return found
    return f"{found[: _LONGEST - 9]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def run_id_of(run: str, given: str, place: str) -> str:
    """The id of an agent's run: the same in a replay, another in another generation."""
    return f"{run}:{given}:{place}"


def scope_of(agent: str, run: str, agent_run: str | None) -> str:
    """What the names of one run of an agent begin with."""
    if agent_run is None:
        return fit(agent)
    of, _, place = agent_run.partition(":")
    turn = place.rpartition("#")[2] if "#" in place else ""
    turn = turn if of == run else fit(agent_run)  # the caller has said which run it is
    return f"{fit(agent)}({turn})" if turn else fit(agent)


def context_of(inputs: Sequence[object]) -> RunContext[Any] | None:
    """The context of the agent's run, if an operation is given it."""
    return next((each for each in inputs if isinstance(each, RunContext)), None)


def step_name(scope: str, operation: object, fallback: str, inputs: Sequence[object]) -> StepName:
    """The name of an operation with these inputs. Pydantic AI's own (`fallback`) for one that is
    not known here: its releases may bring more."""
    context = context_of(inputs)
    tool = fit(context.tool_name or "tool") if context is not None else "tool"
    match operation:
        case ModelRequestId():
            return StepName(f"{scope}.model_request")
        case ModelCompactMessagesId():
            return StepName(f"{scope}.compact_messages")
        case ModelCancelSuspendedResponseId():
            return StepName(f"{scope}.cancel_response")
        case EventStreamHandlerId():
            return StepName(f"{scope}.event", _event_key(inputs))
        case ToolsetCallToolId():
            return StepName(f"{scope}.tool.{tool}", _key(context))
        case ToolsetValidateToolArgumentsId():
            return StepName(f"{scope}.validate.{tool}", _key(context))
        case ToolsetGetToolsId(toolset_id=toolset):
            return StepName(f"{scope}.tools.{fit(toolset)}")
        case ToolsetGetInstructionsId(toolset_id=toolset):
            return StepName(f"{scope}.instructions.{fit(toolset)}")
        case CapabilityOperationId(capability_id=capability, operation=method):
            return StepName(f"{scope}.{fit(capability)}.{fit(method)}")
        case _:
            return StepName(f"{scope}.{fit(fallback)}")


def call_key(step: int, call: str) -> str:
    """The key of a tool call."""
    return f"{step}.{fit(call)}"


def _event_key(inputs: Sequence[object]) -> str | None:
    """Which call of a tool an event is about: calls at the same time end in any order."""
    for event in inputs:
        call = getattr(event, "tool_call_id", None)
        if isinstance(call, str):
            return f"{fit(str(getattr(event, 'event_kind', 'event')))}.{fit(call)}"
    return None


def _key(context: RunContext[Any] | None) -> str | None:
    if context is None or context.tool_call_id is None:
        return None
    return call_key(context.run_step, context.tool_call_id)
