"""Many runs at once: in one call, or from many coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, within, working
from windlass import BadOption, KeyConflict, Status, UsageError, Windlass
from windlass.store.interface import Call


@pytest.fixture
def double(app: Windlass) -> Any:
    """A job."""

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    return double


def count(app: Windlass) -> int:
    """How many runs are stored, up to a thousand."""
    return len(app.list(limit=1000))


async def test_many_in_one_call(app: Windlass, double: Any) -> None:
    runs = app.enqueue_many(double.request(n) for n in range(500))
    twins = await app.aenqueue_many([double.request(n) for n in range(500, 1000)])

    for offset, made in ((0, runs), (500, twins)):
        assert [run.input["n"] for run in made] == list(range(offset, offset + 500))
        assert len({run.id for run in made}) == 500
        assert {run.status for run in made} == {Status.QUEUED}
    assert count(app) == 1000


def test_more_than_the_stores_take_at_once(app: Windlass, double: Any) -> None:
    runs = app.enqueue_many([double.request(n) for n in range(2500)])
    assert app.get(runs[-1].id).input == {"n": 2499}
    assert count(app) == 1000  # the most that one page holds


async def test_requests_of_different_jobs_and_options(app: Windlass, double: Any) -> None:
    @app.job(queue="mail")
    def greet(name: str) -> str:
        return name

    runs = await app.aenqueue_many(
        [double.request(1), greet.using(delay="1h").request("Ada"), greet.request(name="Bob")]
    )
    assert [(run.job, run.queue, run.status) for run in runs] == [
        ("double", "default", "queued"),
        ("greet", "mail", "scheduled"),
        ("greet", "mail", "queued"),
    ]


async def test_all_or_none(app: Windlass, double: Any) -> None:
    double.using(key="taken").enqueue(1)
    requests = [double.request(n) for n in range(10)]
    requests[7] = double.using(key="taken").request(2)
    with pytest.raises(KeyConflict):
        app.enqueue_many(requests)
    with pytest.raises(KeyConflict):
        await app.aenqueue_many(requests)
    assert count(app) == 1


def test_no_requests_make_no_runs(app: Windlass) -> None:
    assert app.enqueue_many([]) == []


async def test_no_requests_make_no_runs_in_async_code(app: Windlass) -> None:
    assert await app.aenqueue_many(iter([])) == []


async def test_what_is_no_request_is_refused(app: Windlass, double: Any) -> None:
    for wrong in (None, "double", {"n": 1}, 5, double):
        requests = [double.request(1), wrong]
        with pytest.raises(UsageError, match="is not a request") as sync:
            app.enqueue_many(requests)
        with pytest.raises(UsageError) as twin:
            await app.aenqueue_many(requests)
        assert str(sync.value) == str(twin.value)
    assert count(app) == 0


def test_one_key_twice_in_a_call_is_one_run(app: Windlass, double: Any) -> None:
    keyed = double.using(key="k")
    first, other, again = app.enqueue_many([keyed.request(1), double.request(1), keyed.request(1)])
    assert first.id == again.id != other.id
    assert first.status is again.status is Status.QUEUED
    assert count(app) == 2


def test_one_request_twice_is_two_runs(app: Windlass, double: Any) -> None:
    request = double.request(1)
    one, two = app.enqueue_many([request, request])
    assert one.id != two.id


async def test_known_key_among_new_ones(app: Windlass, double: Any) -> None:
    known = await double.using(key="k").aenqueue(1)
    async with working(app):
        await app.aresult(known.id, timeout=10)
    runs = await app.aenqueue_many([double.request(5), double.using(key="k").request(1)])
    assert [run.status for run in runs] == [Status.QUEUED, Status.SUCCEEDED]
    assert (runs[1].id, runs[1].result) == (known.id, 2)


# -- group commit -------------------------------------------------------------------------------


@pytest.fixture
def calls(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that the async face makes from now on."""
    made: list[str] = []
    arun: Callable[[Call[Any]], Any] = app.store.arun

    async def counting(call: Call[Any]) -> Any:
        made.append(call.name)
        return await arun(call)

    monkeypatch.setattr(app.store, "arun", counting)
    return made


async def test_coroutines_enqueue_together(app: Windlass, double: Any, calls: list[str]) -> None:
    runs = await asyncio.gather(*(double.aenqueue(n) for n in range(200)))

    assert [run.input["n"] for run in runs] == list(range(200))
    assert count(app) == 200
    assert calls.count("enqueue") < 10


async def test_one_mistake_in_a_group_is_one_callers_error(app: Windlass, double: Any) -> None:
    await double.using(key="taken").aenqueue(0)
    wrong = 77

    async def enqueue(n: int) -> Any:
        job = double.using(key="taken") if n == wrong else double
        return await job.aenqueue(n)

    results: list[Any] = await asyncio.gather(
        *(enqueue(n) for n in range(200)), return_exceptions=True
    )
    assert isinstance(results[wrong], KeyConflict)
    others = [found for n, found in enumerate(results) if n != wrong]
    assert [run.input["n"] for run in others] == [n for n in range(200) if n != wrong]
    assert count(app) == 200


async def test_many_in_one_call_stay_all_or_none_within_a_group(app: Windlass, double: Any) -> None:
    await double.using(key="taken").aenqueue(0)
    poisoned = [double.request(n) for n in range(5)] + [double.using(key="taken").request(1)]
    results = await asyncio.gather(
        app.aenqueue_many(double.request(n) for n in range(5)),
        app.aenqueue_many(poisoned),
        app.aenqueue_many(double.request(n) for n in range(5)),
        return_exceptions=True,
    )
    assert isinstance(results[1], KeyConflict)
    assert count(app) == 11


async def test_canceled_caller_takes_nobody_with_it(app: Windlass, double: Any) -> None:
    tasks = [asyncio.create_task(double.aenqueue(n)) for n in range(50)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    async with asyncio.timeout(PATIENCE):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
    runs = [run for run in results if not isinstance(run, BaseException)]
    assert [run.input["n"] for run in runs] == list(range(1, 50, 2))
    assert (await double.aenqueue(99)).input == {"n": 99}


async def test_error_that_is_nobodys_ends_one_group_only(
    app: Windlass, double: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arun: Callable[[Call[Any]], Any] = app.store.arun
    under_way, gathered, broken = asyncio.Event(), asyncio.Event(), True

    async def breaking(call: Call[Any]) -> Any:
        nonlocal broken
        if broken:
            broken = False
            under_way.set()
            await gathered.wait()
            raise RuntimeError("broken")
        return await arun(call)

    monkeypatch.setattr(app.store, "arun", breaking)
    first = asyncio.create_task(double.aenqueue(0))
    await within(under_way)
    others = [asyncio.create_task(double.aenqueue(n)) for n in range(1, 10)]
    await asyncio.sleep(0)  # they wait behind it now
    gathered.set()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(RuntimeError, match="broken"):
            await first
        runs = await asyncio.gather(*others)
    assert count(app) == len(runs) == 9


async def test_error_of_one_sent_alone_leaves_the_rest_of_its_group(
    app: Windlass, double: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await double.using(key="taken").aenqueue(0)
    arun: Callable[[Call[Any]], Any] = app.store.arun
    writes = 0

    async def breaking(call: Call[Any]) -> Any:
        nonlocal writes
        if call.name.startswith("enqueue"):
            writes += 1
            if writes == 2:  # the first is the group, which is refused
                raise RuntimeError("broken")
        return await arun(call)

    monkeypatch.setattr(app.store, "arun", breaking)
    tasks = [asyncio.create_task(double.aenqueue(n)) for n in range(1, 5)]
    wrong = asyncio.create_task(double.using(key="taken").aenqueue(9))
    async with asyncio.timeout(PATIENCE):
        results = await asyncio.gather(*tasks, wrong, return_exceptions=True)
    kinds = [type(result).__name__ for result in results]
    assert sorted(kinds) == ["KeyConflict", "Run", "Run", "Run", "RuntimeError"]
    assert count(app) == 4


async def test_groups_are_sent_in_nobodys_context(
    app: Windlass, double: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arun: Callable[[Call[Any]], Any] = app.store.arun
    request: ContextVar[str] = ContextVar("request", default="nobody's")
    seen: list[str] = []

    async def looking(call: Call[Any]) -> Any:
        seen.append(request.get())
        return await arun(call)

    monkeypatch.setattr(app.store, "arun", looking)
    request.set("the first caller's")
    await asyncio.gather(*(double.aenqueue(n) for n in range(10)))
    assert set(seen) == {"nobody's"}


async def test_one_hint_for_a_group(
    app: Windlass, double: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is given before its members hear: a program that ends then has woken the workers."""
    hints, seen = 0, []

    async def hinted() -> None:
        nonlocal hints
        await asyncio.sleep(0)
        hints += 1

    async def enqueue(n: int) -> None:
        await double.aenqueue(n)
        seen.append(hints)

    monkeypatch.setattr(app.store, "anotify", hinted)
    await asyncio.gather(*(enqueue(n) for n in range(200)))
    assert 0 < seen[0] <= hints < 10


def test_one_loop_after_another(url: str) -> None:
    app = Windlass(url)

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    async def enqueue() -> None:
        await asyncio.gather(*(double.aenqueue(n) for n in range(10)))
        await app.aclose()

    asyncio.run(enqueue())
    asyncio.run(enqueue())
    assert count(app) == 20
    app.close()


def test_loop_that_was_left_without_closing(url: str) -> None:
    app = Windlass(url)

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    async def enqueue() -> None:
        await asyncio.gather(*(double.aenqueue(n) for n in range(10)))

    asyncio.run(enqueue())
    asyncio.run(enqueue())
    assert count(app) == 20
    asyncio.run(app.aclose())


async def test_none_is_not_a_connection(app: Windlass, double: Any) -> None:
    """The runs would be made at once, whatever becomes of the transaction that was meant."""
    asked = [double.request(1)]
    for call in (
        lambda: double.using(connection=None),
        lambda: app.enqueue("double", {"n": 1}, connection=None),
        lambda: app.enqueue_many(asked, connection=None),
    ):
        with pytest.raises(BadOption, match="give the connection whose transaction the run"):
            call()
    with pytest.raises(BadOption, match="or leave the option out"):
        await app.aenqueue_many(asked, connection=None)
    assert count(app) == 0

    double.using(priority=1).enqueue(1)
    app.enqueue("double", {"n": 1})
    app.enqueue_many(asked)
    await app.aenqueue_many(asked)
    assert count(app) == 4
