"""A run is paused inside its agent, in a worker that goes on with others."""

from __future__ import annotations

import asyncio

from tests.agents.kit import Script, agent_of, call
from tests.engine.test_pausing import told
from tests.fixtures.apps import PATIENCE, holds, reached, within, working
from windlass import Status, Windlass


async def test_an_agent_stops_at_its_next_step_and_goes_on_there(app: Windlass) -> None:
    started, go_on, ended = asyncio.Event(), asyncio.Event(), list[str]()
    model = Script([call("slow", "a"), call("quick", "b")], "")
    agent = agent_of(model)

    @agent.tool_plain
    async def slow() -> str:
        started.set()
        await go_on.wait()
        ended.append("slow")
        return "slow"

    @agent.tool_plain
    async def quick() -> str:
        return "quick"

    @app.job
    async def work() -> str:
        return str((await agent.run("go")).output)

    run = await work.aenqueue()
    async with working(app) as worker:
        await within(started)
        async with told(worker):
            await run.apause("maintenance")
        go_on.set()
        await reached(app, run.id, Status.PAUSED)
        await holds(worker, 0)
        assert (ended, model.requests) == (["slow"], {0: 1})

        await run.aresume()
        done = await run.await_end(timeout=PATIENCE)
    assert done.result == "slow quick"
    assert (ended, model.requests) == (["slow"], {0: 1, 1: 1})
