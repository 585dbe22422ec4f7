"""Durable calls that nobody awaits."""

import pytest

from tests.lint.kit import check_right, check_wrong, handler, module, sync_handler

WRONG = {
    "statement": handler('ctx.step("a", charge)  # <- unawaited'),
    "sleep": handler('ctx.sleep("3d")  # <- unawaited'),
    "approval": handler('if ctx.approval("Deploy?"): return 1  # <- unawaited'),
    "wait": handler('ctx.wait_for("paid", timeout="7d")  # <- unawaited'),
    "unused name": handler('paid = ctx.step("a", charge)  # <- unawaited\nreturn 1'),
    "unused annotated name": handler("paid: object = ctx.now()  # <- unawaited"),
    "underscore": handler('_ = ctx.step("a", charge)  # <- unawaited'),
    "version as a condition": handler(
        """
        if ctx.version("two invoices"):  # <- unawaited
            await ctx.step("a", charge)
        """
    ),
    "negated": handler('new = not ctx.version("x")  # <- unawaited\nreturn new'),
    "calculated with": handler("return ctx.random() * 10  # <- unawaited"),
    "indexed": handler('return ctx.wait_for("paid")["amount"]  # <- unawaited'),
    "compared": handler('return ctx.wait_for("paid") == 7  # <- unawaited'),
    "in text": handler('return f"at {ctx.now()}"  # <- unawaited'),
    "result of the handler": handler('return ctx.step("a", charge)  # <- unawaited'),
    "a list that is dropped": handler('[ctx.step("a", f, i) for i in items]  # <- unawaited'),
    "first": handler(
        'ctx.first(  # <- unawaited\n    paid=ctx.wait_for("paid"), late=ctx.sleep("late", "3d"))'
    ),
    "in an inner function": handler(
        """
        async def one(item):
            ctx.step("a", charge, item)  # <- unawaited
            await ctx.step("b", charge, item)

        for item in items:
            await one(item)
        """
    ),
    "an inner coroutine function": handler(
        """
        async def one(item):
            await ctx.step("a", charge, item)

        one(items[0])  # <- unawaited
        """
    ),
    "a helper": module(
        """
        async def pay(ctx: Context, order):
            await ctx.step("pay", charge, order)

        @app.job
        async def handle(ctx, order):
            pay(ctx, order)  # <- unawaited
        """
    ),
    "in a helper": module(
        """
        async def pay(order, *, context: "Context"):
            context.step("pay", charge, order)  # <- unawaited
        """
    ),
}

RIGHT = {
    "awaited": handler('await ctx.step("a", charge)'),
    "sync": sync_handler('ctx.step("a", charge)\nctx.sleep("3d")'),
    "gathered": handler('await asyncio.gather(ctx.step("a", f), ctx.step("b", g))'),
    "gathered by a name": handler(
        'both = [ctx.step("a", f), ctx.step("b", g)]\nawait asyncio.gather(*both)'
    ),
    "task": handler('task = asyncio.create_task(ctx.step("a", f))\nawait task'),
    "task that is left alone": handler('asyncio.create_task(ctx.step("a", f))'),
    "group": handler(
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step("a", f))
        """
    ),
    "first": handler('await ctx.first(paid=ctx.wait_for("p"), late=ctx.sleep("late", "3d"))'),
    "wait": handler('await asyncio.wait([asyncio.ensure_future(ctx.sleep("3d"))])'),
    "used later": handler('paid = ctx.step("a", f)\nreturn await paid'),
    "used in an inner function": handler(
        """
        paid = ctx.step("a", f)

        async def later():
            return await paid

        return await later()
        """
    ),
    "read by locals()": handler('paid = ctx.step("a", f)\nreturn await locals()["paid"]'),
    "result of a helper": module('def pay(ctx: Context):\n    return ctx.step("a", f)\n'),
    "result of a lambda": handler('make = lambda: ctx.step("a", f)\nawait make()'),
    "appended": handler('found = []\nfound.append(ctx.step("a", f))\nawait found[0]'),
    "awaited in a comprehension": handler('[await ctx.step("a", f, i) for i in items]'),
    "not our context": module(
        """
        import click

        @click.pass_context
        def command(ctx: click.Context):
            ctx.step("a", f)
        """
    ),
    "another value of the name": handler('ctx = other\nctx.step("a", f)'),
    "no durable call": handler('ctx.log("a")\nctx.step'),
    "a helper of unknown kind": module('def pay(ctx):\n    ctx.step("a", f)\n'),
    "another decorator": module(
        """
        @app.job
        @awaits_the_result
        async def handle(ctx):
            return ctx.step("a", f)
        """
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str) -> None:
    check_wrong(WRONG[name])


@pytest.mark.parametrize("name", RIGHT)
def test_is_not_found(name: str) -> None:
    check_right(RIGHT[name])
