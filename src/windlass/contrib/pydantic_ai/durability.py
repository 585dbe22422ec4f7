"""The capability that makes an agent durable."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

import anyio
from pydantic_ai import Agent, RunContext
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.capabilities import WrapRunHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    conversation_id_from_run_id,
)
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT

from windlass.contrib.pydantic_ai.backend import StepBackend
from windlass.contrib.pydantic_ai.handler import caller, handler_here
from windlass.contrib.pydantic_ai.names import fit, run_id_of, scope_of
from windlass.contrib.pydantic_ai.options import METADATA, Options, StepOptions, check_options
from windlass.durable.requests import read_instant
from windlass.errors import BadPayload


class WindlassDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes the runs of an agent durable wherever a handler calls it.

    `Agent(…, name="support", capabilities=[WindlassDurability()])`. Requests to models, calls and
    listings of tools become steps of the run; outside of handlers the agent is a plain one.
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Windlass",
        durable_unit_noun="step",
        durable_container_noun="handler",
        codec=JSON_CODEC,
        # What will never be JSON fails the step for good, as any value of a step does.
        serialization_failure=lambda error: BadPayload("result of a step of an agent", str(error)),
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        tool_config_key=METADATA,
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        model_options: StepOptions | None = None,
        tool_options: StepOptions | None = None,
        mcp_options: StepOptions | None = None,
        event_options: StepOptions | None = None,
    ) -> None:
        """Say how steps of the agent are tried; without options, as its job is.

        `name` is what the names of steps begin with, the agent's own if it is left out. `models`
        are those that a run may be given besides the agent's own, by any name. An
        `event_stream_handler` sees each event live; those of a step that is tried again, or cut
        off, it sees again. A tool has its own options in `metadata={"windlass": StepOptions(…)}`;
        with False in their place its calls are no steps.
        """
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._options = Options(
            model=check_options("model_options", model_options),
            tool=check_options("tool_options", tool_options),
            mcp=check_options("mcp_options", mcp_options),
            event=check_options("event_options", event_options),
        )

    @property
    def in_durable_context(self) -> bool:
        """Whether a handler calls the agent. Raises UsageError if that one is not async."""
        return handler_here() is not None

    def get_durable_operation_backend(self) -> StepBackend:
        """What operations are given to."""
        return StepBackend(agent=self.name, options=self._options)

    def get_default_run_id(self) -> str | None:
        """The id of the agent's run: told by its turn, before anything is awaited."""
        handler = handler_here()
        if handler is None:
            return None
        place = handler.count(f"{fit(self.name)}.run")
        return run_id_of(handler.run, handler.input_hash(), place)

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """The id of a new conversation. Each run of an agent asks for it, in its caller's task."""
        if handler_here() is None:
            return None
        caller.set(asyncio.current_task())
        return conversation_id_from_run_id(run_id)

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        """When a run of the agent with a time limit has begun: in a replay, the same."""
        handler = handler_here()
        if handler is None:
            return None
        sources = handler.desk.sources

        async def began() -> str:
            return sources.now().isoformat()

        scope = scope_of(self.name, handler.run, run_id)
        asked = handler.desk.step(
            f"{scope}.began", began, (), {},
            retry=None, max_attempts=None, timeout=None, fatal=(), key=None,
        )  # fmt: skip
        return read_instant(await handler.do(asked))

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Let the pauses of the agent, such as those between looks at a slow answer, be durable."""
        around = handler_here()
        if around is None:
            return await super().wrap_run(ctx, handler=handler)
        name = f"{scope_of(self.name, around.run, ctx.run_id)}.pause"

        async def pause(seconds: float) -> None:
            here = handler_here()
            if here is None:
                await anyio.sleep(seconds)
            elif seconds > 0:
                await here.do(here.desk.sleep(name, seconds, {}))

        with Agent.using_sleep(pause):
            return await super().wrap_run(ctx, handler=handler)
