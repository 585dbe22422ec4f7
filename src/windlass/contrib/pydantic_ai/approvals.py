"""Asks people before a tool is called."""

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import (
    AgentDepsT,
    DeferredToolRequests,
    DeferredToolResults,
    ToolApproved,
    ToolDenied,
)

from windlass.contrib.pydantic_ai.handler import Handler, caller, handler_here
from windlass.contrib.pydantic_ai.names import call_key, fit, scope_of
from windlass.domain.approval import Approval
from windlass.durable.requests import Notify
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption

ToolQuestion = Callable[[RunContext[Any], ToolCallPart], str]
"""Makes the question that people are asked of a call that an agent wants to make."""

_LONGEST = 500  # characters of arguments that are shown


class Approvals(AbstractCapability[AgentDepsT]):
    """Asks people whether an agent may call a tool, by `ctx.approval`.

    `capabilities=[WindlassDurability(), Approvals(expires="2d", notify=mail_the_team)]`. It is for
    tools with `requires_approval=True` and those that raise ApprovalRequired. While nobody has
    answered, the run waits without a seat. If somebody says no, or
    nobody answers within `expires`, the model gets that as the tool's answer.
    """

    def __init__(
        self,
        *,
        expires: Duration | None = None,
        notify: Notify | None = None,
        question: ToolQuestion | None = None,
    ) -> None:
        """`expires` and `notify` are those of `ctx.approval`. `question` makes the question of a
        call; without it, the tool and its arguments are shown."""
        if expires is not None:
            parse_duration(expires)
        if question is not None and not callable(question):
            raise BadOption("question", f"{question!r} cannot be called")
        self._expires = expires
        self._notify = notify
        self._question = question or _shown

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask for all of them at once; outside of handlers, leave them to others."""
        handler = handler_here()
        if handler is None or not requests.approvals:
            return None
        with handler.work.on_behalf_of(caller.get()):
            answers = await asyncio.gather(
                *(self._ask(handler, ctx, call) for call in requests.approvals)
            )
        approved = zip(requests.approvals, answers, strict=True)
        return requests.build_results(
            approvals={
                call.tool_call_id: ToolApproved() if answer else ToolDenied(message=_no(answer))
                for call, answer in approved
            }
        )

    async def _ask(
        self, handler: Handler, ctx: RunContext[AgentDepsT], call: ToolCallPart
    ) -> Approval:
        agent = (ctx.agent.name if ctx.agent is not None else None) or "agent"
        name = f"{scope_of(agent, handler.run, ctx.run_id)}.approve.{fit(call.tool_name)}"
        key = call_key(ctx.run_step, call.tool_call_id)
        asked = handler.desk.approval(
            self._question(ctx, call), self._expires, name, key, self._notify
        )
        answer: Approval = await handler.do(asked)
        return answer


def _shown(ctx: RunContext[Any], call: ToolCallPart) -> str:
    arguments = call.args_as_json_str()
    if len(arguments) > _LONGEST:
        arguments = f"{arguments[:_LONGEST]}…"
    return f"May the agent call {call.tool_name} with {arguments}?"


def _no(answer: Approval) -> str:
    if answer.expired:
        return "Nobody has answered in time whether this may be done: it was not done."
    why = f" They said: {answer.comment}" if answer.comment else ""
    return f"People were asked, and do not want this to be done.{why}"
