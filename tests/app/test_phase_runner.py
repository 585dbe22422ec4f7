"""The phase runner alone: no store, no worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from windlass import BadOption, Retry, phase
from windlass.phases import PhaseContext, PhaseRunner, PhaseState


def one(n: int) -> int:
    return n + 1


async def two(ctx: PhaseContext, one: int) -> int:
    ctx.progress(0.5, "half")
    return one * int(ctx.phases["one"].result)


def three(two: int, n: int, much: int = 100) -> int:
    return two + n * much


class Told:
    def __init__(self) -> None:
        self.lines: list[tuple[float, list[str]]] = []

    def __call__(self, phases: Sequence[PhaseState], overall: float) -> None:
        self.lines.append((round(overall, 3), [phase.status.value for phase in phases]))


async def test_a_mixed_runner_with_progress() -> None:
    told, kept = Told(), dict[str, Any]()
    runner = PhaseRunner(one, two, three)
    result = await runner.arun({"n": 2}, completed=kept.__setitem__, changed=told)
    assert (result, kept) == (209, {"one": 3, "two": 9, "three": 209})
    done, runs, waits = "succeeded", "running", "pending"
    assert told.lines == [
        (0.0, [runs, waits, waits]), (0.333, [done, waits, waits]), (0.333, [done, runs, waits]),
        (0.5, [done, runs, waits]), (0.667, [done, done, waits]), (0.667, [done, done, runs]),
        (1.0, [done, done, done]),
    ]  # fmt: skip


async def test_what_is_done_is_not_called() -> None:
    runner = PhaseRunner(one, two, three)
    assert await runner.arun({"n": 2}, done={"one": 100, "two": 5}) == 205
    assert await runner.arun({"n": 2}, done={"one": 1, "two": 1, "three": 7}) == 7


def test_blocking_and_what_it_refuses() -> None:
    assert PhaseRunner(one, phase("two", one)).names == ("one", "two")
    assert PhaseRunner(one, phase("last", lambda one: one * 2)).run({"n": 4}) == 10
    with pytest.raises(BadOption, match=r"await runner\.arun"):
        PhaseRunner(one, two).run({"n": 4})
    with pytest.raises(BadOption, match="lacks 'n'"):
        PhaseRunner(one).run({})
    with pytest.raises(BadOption, match=r"only app\.pipeline has"):
        PhaseRunner(phase(one, retry=Retry.fixed(1)))


async def test_a_failure_and_a_cancel_are_told() -> None:
    async def stuck() -> None:
        await asyncio.sleep(60)

    def broken() -> None:
        raise ValueError("boom")

    told = Told()
    with pytest.raises(ValueError, match="boom"):
        await PhaseRunner(broken, stuck).arun({}, changed=told)
    assert told.lines[-1] == (0.0, ["failed", "pending"])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await PhaseRunner(stuck, broken).arun({}, changed=told)
    assert told.lines[-1] == (0.0, ["canceled", "pending"])
