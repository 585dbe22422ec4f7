"""Waiting for many runs at once: all of them, or each as soon as it has ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fixtures.apps import opened, within, working
from windlass import ResultTimeout, Run, Status, Windlass
from windlass.client.waiting import wait_for_all
from windlass.errors import RunNotFound
from windlass.sources import ManualClock, Sources
from windlass.store.flow import Act, Pause, drive
from windlass.store.interface import Call

ABSENT = ["00000000-0000-7000-8000-00000000000" + str(n) for n in range(10)]


@pytest.fixture
def gates(app: Windlass) -> dict[int, asyncio.Event]:
    """Each run of `wait` ends when its gate is opened."""
    found = {n: asyncio.Event() for n in range(4)}

    @app.job
    async def wait(n: int) -> int:
        await found[n].wait()
        if n == 2:
            raise ValueError(n)
        return n

    return found


async def test_each_comes_as_soon_as_it_has_ended(
    app: Windlass, gates: dict[int, asyncio.Event]
) -> None:
    runs = [await app.jobs["wait"].using(max_attempts=1).aenqueue(n) for n in gates]
    seen: list[Run[Any]] = []
    gates[3].set()
    async with working(app):
        async for run in app.as_completed(runs, timeout=30):
            seen.append(run)
            if len(seen) < 4:
                gates[{1: 0, 2: 2, 3: 1}[len(seen)]].set()

    assert [run.input["n"] for run in seen] == [3, 0, 2, 1]
    assert [run.status for run in seen] == ["succeeded", "succeeded", "failed", "succeeded"]
    assert all(run in runs for run in seen), "the same objects, as they now are"


async def test_all_are_returned_in_the_order_given(
    app: Windlass, gates: dict[int, asyncio.Event]
) -> None:
    runs = [await app.jobs["wait"].using(max_attempts=1).aenqueue(n) for n in gates]
    for gate in gates.values():
        gate.set()
    async with working(app):
        ended = await app.await_all([runs[2], runs[0].id, runs[2].id, runs[1]], timeout=30)

    assert [run.id for run in ended] == [runs[n].id for n in (2, 0, 2, 1)]
    assert all(run.status.finished for run in ended)
    assert ended[0] is runs[2]
    assert [run.id for run in app.wait_all(runs[:3])] == [run.id for run in runs[:3]]
    assert {run.id for run in app.as_completed(run.id for run in runs[:3])} == {
        run.id for run in runs[:3]
    }
    assert app.wait_all([]) == list(app.as_completed([])) == []


async def test_runs_that_do_not_exist_are_all_named_at_once(
    app: Windlass, gates: dict[int, asyncio.Event]
) -> None:
    run = await app.jobs["wait"].aenqueue(0)

    with pytest.raises(RunNotFound) as caught:
        await app.await_all([run, *ABSENT[:2]])
    assert (caught.value.run, caught.value.others) == (ABSENT[0], (ABSENT[1],))
    assert ABSENT[1] in str(caught.value)
    with pytest.raises(RunNotFound):
        next(iter(app.as_completed([run.id, ABSENT[0]])))
    with pytest.raises(RunNotFound):
        app.wait_all(["no id"])


async def test_one_look_is_for_all_and_time_runs_out(url: str) -> None:
    """On a clock that the test moves: no pause is slept."""
    sources = Sources.manual()
    clock = sources.clock
    assert isinstance(clock, ManualClock)
    async with opened(url, sources=sources) as app:

        @app.job
        async def idle() -> None: ...

        runs = [await idle.aenqueue() for _ in range(5)]
        runs[0].cancel()
        looks: list[list[str]] = []

        def do(step: Call[Any] | Act[Any]) -> Any:
            if isinstance(step, Pause):
                clock.advance(step.seconds)
                return None
            assert isinstance(step, Call)
            if step.name == "look_for_ends":
                looks.append(list(step.arguments[1]))
                if len(looks) == 3:
                    runs[1].cancel()
            return app.store.run(step)

        with pytest.raises(ResultTimeout) as caught:
            drive(wait_for_all(app.scope, runs, "10s"), do)

    assert [len(look) for look in looks[:5]] == [5, 4, 4, 3, 3]
    assert 40 < len(looks) < 70, "seldom, after a while"
    assert (caught.value.run, caught.value.others) == (runs[2].id, 2)
    assert "and 2 more did not end within 10 s; they go on" in str(caught.value)


async def test_a_run_that_was_reopened_meanwhile_is_waited_for(
    app: Windlass, gates: dict[int, asyncio.Event]
) -> None:
    """Its end was seen, and by the time it is read it lives again."""
    run = await app.jobs["wait"].aenqueue(0)
    run.cancel()
    reopened = False

    def do(step: Call[Any] | Act[Any]) -> Any:
        nonlocal reopened
        if isinstance(step, Call):
            if step.name == "get_runs" and not reopened:
                reopened = True
                app.retry(run.id)
            return app.store.run(step)
        app.cancel(run.id)
        return None

    (ended,) = drive(wait_for_all(app.scope, [run.id], None), do)

    assert reopened
    assert ended.status is Status.CANCELED


async def test_a_loop_that_times_out_keeps_what_it_has(
    app: Windlass, gates: dict[int, asyncio.Event]
) -> None:
    done, waits = [await app.jobs["wait"].aenqueue(n) for n in (0, 1)]
    done.cancel()
    ended = iter(app.as_completed([waits, done], timeout="20ms"))

    assert next(ended) is done
    with pytest.raises(TimeoutError):
        next(ended)


async def test_other_tasks_go_on_meanwhile(app: Windlass, gates: dict[int, asyncio.Event]) -> None:
    runs = [await app.jobs["wait"].aenqueue(n) for n in (0, 1)]
    waiting = asyncio.create_task(app.await_all(runs, timeout=30))
    moved = asyncio.Event()
    asyncio.get_running_loop().call_soon(moved.set)
    await within(moved)
    assert not waiting.done()
    app.select(job="wait").cancel()

    assert {run.status for run in await waiting} == {Status.CANCELED}
