"""Steps that are recorded in one trip: whatever becomes of it, each caller has an answer."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest

from tests.fixtures.apps import PATIENCE
from windlass.domain.run import Held
from windlass.store.operations import Operations
from windlass.store.postgres.together import StepsTogether

CALLS = [Operations().record_steps(Held("default", f"run {n}", 1), []) for n in range(3)]


async def fail(*given: Any) -> NoReturn:
    raise ArithmeticError("a bug")


@pytest.mark.parametrize("number", [1, 3])
async def test_a_bug_in_a_trip_leaves_nobody_waiting(number: int) -> None:
    together = StepsTogether(alone=fail, execute=fail)
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    try:
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(
                *map(together.run, CALLS[:number]), return_exceptions=True
            )
    finally:
        asyncio.get_running_loop().set_exception_handler(None)
    assert [type(answer) for answer in answers] == [ArithmeticError] * number
