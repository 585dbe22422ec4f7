"""Flows: written once, run blocking and on the loop, with errors raised where they belong."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from windlass import RunNotFound, Windlass
from windlass.client.scope import Scope
from windlass.domain.run import RunRef
from windlass.store.flow import Flow, Hint, Pause, adrive, arun_flow, drive, run_flow

NOBODY = "00000000-0000-7000-8000-000000000000"


def _steps() -> Generator[int, int, list[int]]:
    return [(yield 1), (yield 2)]


async def test_each_step_is_answered_in_its_turn() -> None:
    async def double(step: int) -> int:
        return step * 2

    assert drive(_steps(), lambda step: step * 2) == [2, 4]
    assert await adrive(_steps(), double) == [2, 4]


def _mending() -> Generator[str, str, str]:
    try:
        return (yield "bad")
    except ValueError:
        return (yield "good")


async def test_an_error_is_raised_inside_the_flow() -> None:
    def do(step: str) -> str:
        if step == "bad":
            raise ValueError(step)
        return step

    async def ado(step: str) -> str:
        return do(step)

    assert drive(_mending(), do) == "good"
    assert await adrive(_mending(), ado) == "good"


async def test_store_calls_and_acts_work_on_both_faces(app: Windlass) -> None:
    def flow() -> Flow[Any]:
        yield Pause(0.0)
        yield Hint()
        return (yield app.store.operations.get_run(RunRef("default", NOBODY)))

    assert run_flow(app.store, flow()) is None
    assert await arun_flow(app.store, flow()) is None


def test_a_scope_sees_its_own_tenant_alone(app: Windlass) -> None:
    @app.job
    def work() -> None: ...

    theirs = Scope(app.ground, "theirs")
    run = work.enqueue()

    assert app.scope.tenant == "default"
    assert theirs.store is app.store
    with pytest.raises(RunNotFound):
        type(run)(theirs, run.record).refresh()
