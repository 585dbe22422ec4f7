"""Durable agents: Pydantic AI's model requests and tool calls as steps of a run.

    agent = Agent("openai:gpt-5", name="support", capabilities=[WindlassDurability()])

    @app.job
    async def answer(ctx: Context, question: str) -> str:
        return (await agent.run(question)).output

Pydantic AI divides the run of an agent in two. What only decides (which tools to call, whether the
output is valid, what to send next) is plain code, and is called again in a replay. What reaches the
outside world is an *operation*: a request to a model, a call of a tool, a listing of tools, a call
of an event handler. An engine for durability is given each operation with a name and a body, and
has to see to it that the body is not called again once its value is recorded. Here it becomes a
step of the run whose handler called the agent, by the same path as `ctx.step`: recorded once, under
the lease's token.

Invariants:

- What decides, decides the same in a replay: it sees the recorded values alone, in the first run
  too, since that reads each value back from what is recorded. So both see the same types.
- A step is found by what it is, not by when it was reached. A tool call has the number of its
  model request and the id that the model gave it as its key (`names.py`): calls that overtake each
  other in one run and not in the other keep their own values.
- The agent's own ids (its run's, the conversation's) come from the run, the input and the turn.

What happens when it dies here: as with any step. Before the record of an operation is committed,
nothing of it is remembered, and its body is called again; after that it never is. An agent that
runs inside a tool of another has its steps inside that tool's: they are kept as well.

Outside of handlers an agent with this is a plain agent. Nothing else in Windlass imports this
package, or Pydantic AI.
"""

from windlass.errors import UsageError

try:
    from windlass.contrib.pydantic_ai.approvals import Approvals, ToolQuestion
    from windlass.contrib.pydantic_ai.durability import WindlassDurability
    from windlass.contrib.pydantic_ai.options import StepOptions
except ImportError as error:
    raise UsageError(
        "Durable agents need Pydantic AI: pip install 'windlass[pydantic-ai]'."
    ) from error

__all__ = ["Approvals", "StepOptions", "ToolQuestion", "WindlassDurability"]
