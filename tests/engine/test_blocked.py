"""Whether a handler waits for nothing but durable waits: seen from outside, however it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from windlass.domain.run import Held
from windlass.durable.acts import Wait
from windlass.durable.awaited import AwaitedWork, Patience
from windlass.durable.blocked import is_blocked
from windlass.durable.ledger import Ledger
from windlass.store.operations import Operations

Future = asyncio.Future[Any]
Way = Callable[[Future, Future], Awaitable[object]]
TURNS = 5


async def wait(future: Future) -> Any:
    return await future


async def alone(one: Future, other: Future) -> None:
    await wait(one)


async def gathered(one: Future, other: Future) -> None:
    await asyncio.gather(wait(one), wait(other), return_exceptions=True)


async def gathered_futures(one: Future, other: Future) -> None:
    await asyncio.gather(one, other)


async def nested(one: Future, other: Future) -> None:
    await asyncio.gather(gathered(one, other), wait(one))


async def grouped(one: Future, other: Future) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(wait(one))
        group.create_task(wait(other))


async def in_tasks(one: Future, other: Future) -> None:
    for task in [asyncio.ensure_future(wait(one)), asyncio.ensure_future(wait(other))]:
        await task


async def waited(one: Future, other: Future) -> None:
    await asyncio.wait([asyncio.ensure_future(wait(one)), asyncio.ensure_future(wait(other))])


async def for_an_event(one: Future, other: Future) -> None:
    await asyncio.Event().wait()


async def beside_an_event(one: Future, other: Future) -> None:
    await asyncio.gather(wait(one), asyncio.Event().wait())


async def beside_a_sleep(one: Future, other: Future) -> None:
    await asyncio.gather(wait(one), asyncio.sleep(3600))


async def in_a_timeout(one: Future, other: Future) -> None:
    async with asyncio.timeout(3600):
        await wait(one)


async def around_a_group(one: Future, other: Future) -> None:
    async with asyncio.timeout(3600):
        await grouped(one, other)


async def by_wait_for(one: Future, other: Future) -> None:
    await asyncio.wait_for(wait(one), 3600)


async def in_no_timeout(one: Future, other: Future) -> None:
    async with asyncio.timeout(None):
        await wait(one)


@pytest.mark.parametrize(
    ("way", "blocked"),
    [
        *((way, True) for way in (alone, gathered, gathered_futures, nested, grouped)),
        *((way, True) for way in (in_tasks, waited, in_no_timeout)),
        *((way, False) for way in (for_an_event, beside_an_event, beside_a_sleep)),
        *((way, False) for way in (in_a_timeout, around_a_group, by_wait_for)),
    ],
)
async def test_every_way_to_wait(way: Way, blocked: bool) -> None:
    loop = asyncio.get_running_loop()
    one, other = loop.create_future(), loop.create_future()
    task = asyncio.ensure_future(way(one, other))
    for _ in range(TURNS):
        await asyncio.sleep(0)

    found = is_blocked(task, {one, other})
    foreign = is_blocked(task, set())

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (found, foreign) == (blocked, False)


@pytest.mark.parametrize(("busy", "blocked"), [(False, True), (True, False)])
async def test_a_library_says_which_tasks_its_caller_waits_for(busy: bool, blocked: bool) -> None:
    """Two tasks that nobody can see through to; then one of them does something else."""
    loop = asyncio.get_running_loop()
    one = loop.create_future()
    caller = asyncio.ensure_future(asyncio.Event().wait())
    hidden = [asyncio.ensure_future(wait(one)), asyncio.ensure_future(gathered(one, one))]
    if busy:
        hidden.append(asyncio.ensure_future(asyncio.sleep(3600)))
    for _ in range(TURNS):
        await asyncio.sleep(0)

    found = is_blocked(caller, {one}, through={caller: hidden})
    unsaid = is_blocked(caller, {one}, through={caller: []})

    for task in (caller, *hidden):
        task.cancel()
    await asyncio.gather(caller, *hidden, return_exceptions=True)
    assert (found, unsaid) == (blocked, False)


async def test_a_handler_that_is_about_to_go_on_is_not_suspended() -> None:
    """The first of two has come, and who waits for it has not heard of that yet."""
    loop = asyncio.get_running_loop()
    suspended: list[bool] = []
    ledger = Ledger(
        Operations(),
        Held("default", "r", 1),
        is_new=True,
        monotonic=loop.time,
        is_stopped=lambda: False,
    )
    holder: list[AwaitedWork] = []

    async def quick() -> str:
        await asyncio.sleep(0)
        loop.call_soon(holder[0]._look)  # before its own end is told
        return "quick"

    async def slow() -> None:
        await holder[0]._wait(Wait("never", None, None, signal=False))

    async def handler() -> str:
        work = AwaitedWork(
            None, lambda: None, ledger, Patience(linger=3600),  # type: ignore[arg-type, return-value]
            lambda: suspended.append(True), asyncio.current_task(),
        )  # fmt: skip
        holder.append(work)
        tasks = [asyncio.ensure_future(quick()), asyncio.ensure_future(slow())]
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        return str(done.pop().result())

    assert await asyncio.ensure_future(handler()) == "quick"
    assert suspended == []
