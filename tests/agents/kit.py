"""Agents whose models are functions of the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from windlass import Run
from windlass.contrib.pydantic_ai import WindlassDurability

Turn = Sequence[ToolCallPart] | str | Exception


class Script:
    """A model that says one turn after the other, by what it was already answered."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = turns
        self.requests: Counter[int] = Counter()

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = sum(isinstance(message, ModelResponse) for message in messages)
        self.requests[said] += 1
        turn = self.turns[said]
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn or " ".join(answers(messages)))])
        return ModelResponse(parts=list(turn))


def call(tool: str, id: str, **arguments: Any) -> ToolCallPart:
    """A call of a tool, as a model makes it."""
    return ToolCallPart(tool, arguments, tool_call_id=id)


def answers(messages: Sequence[ModelMessage]) -> list[str]:
    """What tools have answered, in the order in which the model sees it."""
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]


def prompts(messages: Sequence[ModelMessage]) -> list[str]:
    """What users have said."""
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart)]


def agent_of(
    model: Callable[[list[ModelMessage], AgentInfo], ModelResponse],
    *more: Any,
    durability: WindlassDurability[Any] | None = None,
    name: str = "support",
    **options: Any,
) -> Agent[None, Any]:
    """A durable agent."""
    capabilities = [durability or WindlassDurability(), *more]
    return Agent(FunctionModel(model), name=name, capabilities=capabilities, **options)


def paths(run: Run) -> list[str]:
    """The recorded steps of a run, in the order of the alphabet."""
    return sorted(step.path for step in run.steps())
