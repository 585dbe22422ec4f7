"""Runs that come after others: `using(after=…)` and `app.chain`, on both faces, in real workers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.fixtures.apps import working
from windlass import Context, Run, Status, Windlass
from windlass.errors import BadArguments, BadOption, RunNotFound, UsageError

NOBODY = "00000000-0000-7000-8000-000000000000"


class Shop:
    """Some jobs."""

    def __init__(self, app: Windlass) -> None:
        self.done: list[str] = []

        @app.job
        async def fetch(url: str) -> int:
            self.done.append("fetch")
            return len(url)

        @app.job
        async def double(number: int, times: int = 2) -> int:
            self.done.append("double")
            return number * times

        @app.job
        def tell(number: int, *, name: str = "it") -> str:
            self.done.append("tell")
            return f"{name}: {number}"

        @app.job
        async def start() -> int:
            return 1

        @app.job(max_attempts=1)
        async def breaks() -> int:
            raise ValueError("no")

        @app.job
        async def alone(ctx: Context, *, number: int) -> None:
            pass

        self.fetch, self.double, self.tell = fetch, double, tell
        self.start, self.breaks, self.alone = start, breaks, alone


@pytest.fixture
def shop(app: Windlass) -> Shop:
    return Shop(app)


async def test_each_run_gets_the_result_of_the_one_before(app: Windlass, shop: Shop) -> None:
    first, second, third = await app.achain(
        shop.fetch.request("http://a"), shop.double.link(times=10), shop.tell.link(name="length")
    )
    assert [run.status for run in (first, second, third)] == [
        Status.QUEUED, Status.SCHEDULED, Status.SCHEDULED,
    ]  # fmt: skip

    async with working(app):
        assert await app.aresult(third, timeout=20) == "length: 80"

    assert shop.done == ["fetch", "double", "tell"]
    assert (await third.arefresh()).input == {"number": 80, "name": "length"}
    assert [run.id for run in await second.aafter()] == [first.id]
    assert [run.id for run in await second.afollowers()] == [third.id]


async def test_a_run_starts_after_several(app: Windlass, shop: Shop) -> None:
    runs = [await shop.fetch.aenqueue(url) for url in ("a", "b")]
    last = await shop.tell.using(after=runs).aenqueue(7)

    async with working(app):
        assert await app.aresult(last, timeout=20) == "it: 7"

    assert shop.done == ["fetch", "fetch", "tell"]


async def test_what_comes_after_a_failure_is_canceled_or_runs(app: Windlass, shop: Shop) -> None:
    failing, *rest = await app.achain(shop.breaks, shop.double, shop.tell)
    anyway = await shop.fetch.using(after=failing, after_failure="run").aenqueue("a")

    async with working(app):
        assert await app.aresult(anyway, timeout=20) == 1
        ended = [await run.await_end(timeout=20) for run in rest]

    assert [run.status for run in ended] == [Status.CANCELED] * 2
    assert failing.id in (ended[0].record.reason or "")


def test_chains_on_the_sync_face(app: Windlass, shop: Shop) -> None:
    first, second = app.chain(shop.start, shop.double)
    assert [run.id for run in second.after()] == [first.id]
    assert [run.id for run in first.followers()] == [second.id]
    (named,) = app.enqueue_many([shop.fetch.using(after=second.id).request("a")])
    assert [run.id for run in app.followers(second.id)] == [named.id]
    by_name = app.enqueue("fetch", {"url": "a"}, after=[named])
    assert [run.id for run in by_name.after()] == [named.id]
    assert shop.fetch.using(after=[]).enqueue("a").status is Status.QUEUED


def test_a_chain_in_a_transaction(app: Windlass, shop: Shop) -> None:
    with suppress(ZeroDivisionError), app.transaction() as tx:
        app.chain(shop.start, shop.double, connection=tx)
        raise ZeroDivisionError
    assert app.list() == []
    with app.transaction() as tx:
        _, second = app.chain(shop.start, shop.double, connection=tx)
        third = shop.tell.using(connection=tx, after=second).enqueue(3)
    assert app.get(second.id).status is Status.SCHEDULED
    assert [run.id for run in third.after()] == [second.id]


def refused(shop: Any, app: Any) -> list[tuple[Any, type[Exception], str]]:
    run = shop.start.enqueue()
    return [
        (lambda: shop.fetch.using(after=[run], delay="5s"), BadOption, "either after= or a time"),
        (lambda: shop.fetch.using(after=7), BadOption, "neither a run nor a list"),
        (lambda: shop.fetch.using(after=[7]), BadOption, "neither a run nor the id"),
        (lambda: shop.fetch.using(after="x"), RunNotFound, "x"),
        (lambda: shop.fetch.using(after=[run], after_failure="fail"), BadOption, "cancel"),
        (lambda: shop.fetch.using(after_failure="run"), BadOption, "it needs after="),
        (lambda: shop.fetch.using(after=NOBODY).enqueue("a"), BadArguments, NOBODY),
        (lambda: app.chain(shop.start), UsageError, "two jobs or more"),
        (lambda: app.chain(shop.start, shop.tell.request(1)), UsageError, "has all its arguments"),
        (lambda: app.chain(shop.start, "double"), UsageError, "neither a job nor a request"),
        (lambda: app.chain(shop.start, shop.alone), BadArguments, "no positional argument"),
        (lambda: app.chain(shop.start, shop.double.using(key="k")), BadOption, "after="),
        (lambda: app.chain(shop.start, shop.double.using(after=run)), BadOption, "only the first"),
        (lambda: shop.double.link(times="two"), BadArguments, "wrong times"),
        (lambda: shop.double.link(number=1), BadArguments, "from the run before"),
        (lambda: shop.double.link(other=1), BadArguments, "no argument 'other'"),
        (lambda: app.enqueue_many([shop.double.link()]), UsageError, "app.chain"),
    ]


def test_what_is_refused(app: Windlass, shop: Shop) -> None:
    for attempt, error, told in refused(shop, app):
        with pytest.raises(error, match=told):
            attempt()
    assert len(app.list()) == 1, "nothing was enqueued"


async def test_a_child_comes_after_nobody(app: Windlass, shop: Shop) -> None:
    run = await shop.start.aenqueue()

    @app.job(max_attempts=1)
    async def parent(ctx: Context) -> None:
        await ctx.run(shop.fetch.using(after=run), "a")

    made = await parent.aenqueue()
    async with working(app):
        ended: Run[Any] = await made.await_end(timeout=20)
    assert ended.error is not None
    assert "await the other runs first" in ended.error.message
