"""An agent that is killed -9 in the middle of a tool call, and goes on in another worker.

Needs the extra `pydantic-ai`; no network, and no key of a model: a function plays the model. Each
of its requests is noted in a file, so that you see that none is made twice.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from windlass import Context, Windlass
from windlass.contrib.pydantic_ai import WindlassDurability

NOTES = Path("notes.txt")

# In $WINDLASS_URL, or windlass.db. A short lease: a dead worker is noticed within two seconds.
app = Windlass(lease="2s", renew="500ms", sweep="300ms")


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{text}\n")


def count(text: str) -> int:
    return NOTES.read_text().splitlines().count(text) if NOTES.exists() else 0


def plays_a_model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    note("model request")
    answers = [p.content for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
    match answers:
        case []:
            return ModelResponse(parts=[ToolCallPart("find_order", {"name": "Ada"})])
        case [order]:
            return ModelResponse(parts=[ToolCallPart("refund", {"order": order})])
        case [_, receipt, *_]:
            return ModelResponse(parts=[TextPart(f"Done: {receipt}.")])


agent = Agent(FunctionModel(plays_a_model), name="support", capabilities=[WindlassDurability()])


@agent.tool_plain
async def find_order(name: str) -> int:
    note("find_order")
    return len(name)


@agent.tool_plain
async def refund(order: int) -> str:
    note("refund")
    if count("refund") == 1:
        await asyncio.sleep(3600)  # the kill comes here: in the middle of the first call
    return f"order {order} is refunded"


@app.job
async def answer(ctx: Context, question: str) -> str:
    result = await agent.run(question)
    return result.output


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def start_worker() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, __file__, "worker"])


def main() -> None:
    app.migrate()
    run = answer.enqueue("I want my money back. Ada")
    worker = start_worker()
    until(lambda: count("refund") == 1)
    worker.kill()
    worker.wait()
    print(f"killed in the middle of refund, after {count('model request')} model requests")

    worker = start_worker()
    try:
        ended = run.wait("30s")
    finally:
        worker.terminate()
        worker.wait()
    print(f"{ended.status}: {ended.result}")
    for what in ("model request", "find_order", "refund"):
        print(f"{count(what)} x {what}")
    app.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        asyncio.run(app.worker().run())
    else:
        main()
