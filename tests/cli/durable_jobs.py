"""Jobs with durable steps, for the tests of commands that show or signal their runs."""

from __future__ import annotations

from typing import Any

from tests.cli.kit import make_app
from windlass import Context, ContinueAs, Retry, Windlass


def no_answer(part: str) -> None:
    """Fail, as a service does that is down."""
    raise ConnectionError(f"no answer\nfor {part}\x1b[31m")


def make_durable_app(url: str) -> Windlass:
    """An application with a job for each way to wait."""
    app = make_app(url)

    @app.job
    async def order(ctx: Context) -> Any:
        return await ctx.wait_for("paid", timeout="7d")

    @app.job
    async def patient(ctx: Context) -> Any:
        return await ctx.wait_for("paid")

    @app.job
    async def trial(ctx: Context) -> None:
        await ctx.step("welcome", str, "hello")
        await ctx.sleep("a month", days=30)

    @app.job
    async def unlucky(ctx: Context) -> None:
        await ctx.step("call", no_answer, "card", retry=Retry.fixed("1h", jitter=0), max_attempts=9)

    @app.job
    async def nested(ctx: Context) -> None:
        async def ship() -> None:
            await ctx.step("pack", str, "box")

            async def send() -> None:
                await ctx.step("label", str, "A7")
                await ctx.step("call", no_answer, "van", retry=Retry.fixed("2h", jitter=0))

            await ctx.step("send", send)

        await ctx.step("ship", ship)

    @app.job
    async def race(ctx: Context) -> Any:
        return await ctx.first(paid=ctx.wait_for("paid"), late=ctx.sleep("late", days=3))

    @app.job
    async def parcel(ctx: Context) -> None:
        await ctx.wait_for("paid", timeout="3d")
        await ctx.wait_for("shipped")

    @app.job
    async def many(ctx: Context, count: int) -> None:
        for n in range(count):
            await ctx.step("part", str, n)
        await ctx.wait_for("more")

    @app.job
    async def pages(ctx: Context, page: int = 1) -> int | ContinueAs:
        await ctx.step("fetch", str, page)
        if page < 8:
            return ContinueAs(page=page + 1)
        await ctx.wait_for("more")
        return page

    @app.job
    async def release(ctx: Context) -> dict[str, Any]:
        first = await ctx.approval("Deploy\nto production?", name="deploy", expires="2d")
        second = await ctx.approval("Announce it?")
        return {"first": first.by, "second": bool(second), "why": second.comment}

    @app.job(max_attempts=1)
    async def broken(ctx: Context) -> None:
        await ctx.step("charge", no_answer, "card", max_attempts=1)

    @app.job(max_attempts=1)
    async def fussy(number: int) -> int:
        if number == 2:
            raise ValueError("not two")
        return number

    @app.job
    async def family(ctx: Context, count: int) -> None:
        await ctx.map(fussy, range(count), parallel=2, return_exceptions=True)
        await ctx.wait_for("more")

    @app.job
    async def reserved(ctx: Context, count: int) -> None:
        await ctx.map(patient, [patient.request() for _ in range(count)], parallel=2)

    return app
