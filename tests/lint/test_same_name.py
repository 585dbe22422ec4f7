"""Calls that share a name, and whose turns a replay can swap."""

import pytest

from tests.lint.kit import check_right, check_wrong, handler, module, sync_handler

WRONG = {
    "arms of an if on something awaited": handler(
        """
        if await is_paid(order):
            await ctx.step("mail", thank, order)
        else:
            await ctx.step("mail", remind, order)  # <- same-name
        """
    ),
    "arms of an if on the attempt": handler(
        """
        if ctx.attempt == 1:
            await ctx.step("charge", by_card, order)
        else:
            await ctx.step("charge", by_invoice, order)  # <- same-name
        """
    ),
    "of a name that was awaited": handler(
        """
        paid = await is_paid(order)
        if paid:
            await ctx.step("mail", thank, order)
        elif order:
            await ctx.step("mail", remind, order)  # <- same-name
        """
    ),
    "arms of a match": handler(
        """
        match await fetch_state(order):
            case "paid":
                await ctx.step("mail", thank, order)
            case _:
                await ctx.step("mail", remind, order)  # <- same-name
        """
    ),
    "another kind": handler(
        """
        if await is_paid(order):
            await ctx.step("next", ship, order)
        else:
            await ctx.sleep("next", "3d")  # <- same-name
        """
    ),
    "after a branch": handler(
        """
        if await is_new(order):
            await ctx.step("mail", send, "welcome")
        await ctx.step("mail", send, "receipt")  # <- same-name
        """
    ),
    "after a loop": sync_handler(
        """
        while not ctx.stopping:
            ctx.step("poll", poll)
        ctx.step("poll", poll)  # <- same-name
        """
    ),
    "tasks, after an await": handler(
        """
        async def one(item):
            await ctx.step("fetch", fetch, item)
            await ctx.step("save", save, item)  # <- same-name

        await asyncio.gather(*(one(item) for item in items))
        """
    ),
    "tasks from a list": handler(
        """
        async def one(item):
            await asyncio.sleep(1)
            await ctx.step("save", save, item)  # <- same-name

        tasks = [asyncio.create_task(one(item)) for item in items]
        await asyncio.gather(*tasks)
        """
    ),
    "tasks of a group": handler(
        """
        async def one(item):
            await ctx.step("fetch", fetch, item)
            await ctx.now()  # <- same-name

        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(one(item))
        """
    ),
    "two functions": handler(
        """
        async def pay():
            await ctx.step("charge", charge, order)
            await ctx.step("log", log, "paid")  # <- same-name

        async def ship():
            await ctx.step("pack", pack, order)
            await ctx.step("log", log, "shipped")

        await asyncio.gather(pay(), ship())
        """
    ),
    "a loop in a task": handler(
        """
        async def one(item):
            for page in item:
                await ctx.step("page", fetch, page)  # <- same-name

        await asyncio.gather(*[one(item) for item in items])
        """
    ),
    "helpers as tasks": module(
        """
        async def one(ctx: Context, item):
            await ctx.step("fetch", fetch, item)
            await ctx.sleep("1h")  # <- same-name

        @app.job
        async def handle(ctx: Context, items):
            await asyncio.gather(*(one(ctx, item) for item in items))
        """
    ),
    "a race": handler(
        """
        async def ask(who):
            await ctx.step("mail", mail, who)
            return await ctx.wait_for("answer")  # <- same-name

        await ctx.first(a=ask("a"), b=ask("b"))
        """
    ),
    "threads": sync_handler(
        """
        def one(item):
            return ctx.step("save", save, item)  # <- same-name

        with ThreadPoolExecutor() as pool:
            list(pool.map(one, items))
        """
    ),
}

RIGHT = {
    "one after another": handler('await ctx.step("mail", f, 1)\nawait ctx.step("mail", f, 2)'),
    "a loop": handler('for item in items:\n    await ctx.step("mail", f, item)'),
    "arms decided by the input": handler(
        """
        if order.express:
            await ctx.step("ship", by_air, order)
        else:
            await ctx.step("ship", by_sea, order)
        """
    ),
    "arms decided by a step": handler(
        """
        if await ctx.step("paid", is_paid, order):
            await ctx.step("mail", thank, order)
        else:
            await ctx.step("mail", remind, order)
        """
    ),
    "arms of a version": handler(
        """
        new = await ctx.version("by air")
        if new:
            await ctx.step("ship", by_air, order)
        else:
            await ctx.step("ship", by_sea, order)
        """
    ),
    "the same call in both arms": handler(
        """
        if await is_paid(order):
            await ctx.step("mail", send, "thanks")
        else:
            await ctx.step("mail", send, "reminder")
        """
    ),
    "names of their own": handler(
        """
        if await is_paid(order):
            await ctx.step("thank", thank, order)
        else:
            await ctx.step("remind", remind, order)
        """
    ),
    "keys": handler(
        """
        if ctx.attempt == 1:
            await ctx.step("mail", thank, order, key="thanks")
        else:
            await ctx.step("mail", remind, order, key="reminder")
        """
    ),
    "after a branch decided by the input": handler(
        """
        if order.is_new:
            await ctx.step("mail", send, "welcome")
        await ctx.step("mail", send, "receipt")
        """
    ),
    "an inner function made of steps decides": handler(
        """
        async def is_paid():
            return await ctx.step("paid", look, order)

        if await is_paid():
            await ctx.step("mail", thank, order)
        else:
            await ctx.step("mail", remind, order)
        """
    ),
    "a list that is made of itself": handler(
        'tasks = [tasks for _ in items]\nawait asyncio.gather(*tasks, ctx.sleep("3d"))'
    ),
    "the branch comes last": handler(
        """
        await ctx.step("mail", send, "welcome")
        if await is_late(order):
            await ctx.step("mail", send, "reminder")
        """
    ),
    "the branch returns": handler(
        """
        if await is_late(order):
            await ctx.step("mail", send, "reminder")
            return
        await ctx.step("mail", send, "welcome")
        """
    ),
    "a helper may be made of steps": handler(
        """
        if await is_paid(ctx, order):
            await ctx.step("mail", thank, order)
        else:
            await ctx.step("mail", remind, order)
        """
    ),
    "tasks, before any await": handler(
        """
        async def one(item):
            return await ctx.step("fetch", fetch, item)

        await asyncio.gather(*(one(item) for item in items))
        """
    ),
    "tasks with keys": handler(
        """
        async def one(item):
            await ctx.step("fetch", fetch, item, key=item)
            await ctx.step("save", save, item, key=item)

        await asyncio.gather(*(one(item) for item in items))
        """
    ),
    "tasks with names of their own": handler(
        """
        async def one(item):
            await ctx.step("fetch", fetch, item)
            await ctx.step(f"save {item}", save, item)

        await asyncio.gather(*(one(item) for item in items))
        """
    ),
    "tasks in steps": handler(
        """
        async def one(item):
            await ctx.step("fetch", fetch, item)
            await ctx.step("save", save, item)

        await asyncio.gather(*(ctx.step("one", one, item) for item in items))
        """
    ),
    "one after another, by a function": handler(
        """
        async def one(item):
            await ctx.step("fetch", fetch, item)
            await ctx.step("save", save, item)

        for item in items:
            await one(item)
        """
    ),
    "one task after another": handler(
        """
        async def one(item):
            await ctx.step("fetch", fetch, item)
            await ctx.step("save", save, item)

        for item in items:
            await asyncio.create_task(one(item))
        """
    ),
    "different names at once": handler(
        """
        async def pay():
            await ctx.step("charge", charge, order)
            await ctx.step("receipt", mail, order)

        async def ship():
            await ctx.step("pack", pack, order)
            await ctx.step("label", label, order)

        await asyncio.gather(pay(), ship())
        """
    ),
    "threads with keys": sync_handler(
        """
        def one(item):
            return ctx.step("save", save, item, key=item)

        with ThreadPoolExecutor() as pool:
            list(pool.map(one, items))
        """
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str) -> None:
    check_wrong(WRONG[name])


@pytest.mark.parametrize("name", RIGHT)
def test_is_not_found(name: str) -> None:
    check_right(RIGHT[name])
