"""The clock, new ids and chance: in names, keys and arguments, and as conditions."""

import pytest

from tests.lint.kit import IMPORTS, check_right, check_wrong, handler, module, sync_handler

NAMES_WRONG = {
    "time in a name": handler('await ctx.step(f"a {time.time()}", f)  # <- changing-name'),
    "datetime in a key": handler(
        'await ctx.step("a", f, key=str(dt.datetime.now()))  # <- changing-name'
    ),
    "imported class": handler(
        'await ctx.step("a", f, key=f"{datetime.utcnow()}")  # <- changing-name'
    ),
    "today": handler('await ctx.step("a", f, key=date.today().isoformat())  # <- changing-name'),
    "uuid": handler('await ctx.step("a", f, key=str(uuid4()))  # <- changing-name'),
    "random": handler('await ctx.step(f"a{random.randint(1, 9)}", f)  # <- changing-name'),
    "id": handler('await ctx.step("a", f, key=str(id(order)))  # <- changing-name'),
    "approval": handler('await ctx.approval("Go?", name=f"{uuid.uuid4()}")  # <- changing-name'),
    "signal": handler('await ctx.wait_for(f"paid {uuid.uuid4()}")  # <- changing-name'),
    "sleep": handler('await ctx.sleep(f"nap {time.monotonic()}", "3d")  # <- changing-name'),
    "sync": sync_handler('ctx.step("a" + str(time.time_ns()), f)  # <- changing-name'),
    "a variable": handler(
        'key = str(uuid4())\nawait ctx.step("a", f, key=key)  # <- changing-name'
    ),
    "alias": module(
        """
        from time import time as clock

        @app.job
        async def handle(ctx):
            await ctx.step(f"a {clock()}", f)  # <- changing-name
        """
    ),
}

NAMES_RIGHT = {
    "input": handler('await ctx.step(f"a {order}", f, key=str(order))'),
    "recorded time": handler('await ctx.step("a", f, key=str(await ctx.now()))'),
    "recorded id": handler('key = str(await ctx.uuid())\nawait ctx.step("a", f, key=key)'),
    "hash of the input": handler('await ctx.step("a", f, key=str(uuid.uuid5(SPACE, order)))'),
    "seeded": handler('await ctx.step("a", f, key=str(random.Random(7).random()))'),
    "length of a sleep": handler("await ctx.sleep(60 + random.random())"),
    "text of a question": handler('await ctx.approval(f"Go at {time.time()}?")'),
    "timeout of a wait": handler('await ctx.wait_for("a", timeout=time.time() - 1)'),
    "an own function called id": handler('id = make\nawait ctx.step("a", f, key=id(order))'),
    "an own module called time": IMPORTS.replace("import time\n", "from shop import time\n")
    + '@app.job\nasync def handle(ctx):\n    await ctx.step(f"a {time.time()}", f)\n',
    "not called": handler('await ctx.step("a", time.time)'),
    "the attempt": handler('await ctx.step("a", f, ctx.attempt, key=str(ctx.attempt))'),
    "assigned twice": handler('key = str(uuid4())\nkey = order\nawait ctx.step("a", f, key=key)'),
}

ARGUMENTS_WRONG = {
    "time": handler('await ctx.step("a", f, time.time())  # <- changing-argument'),
    "now": handler('await ctx.step("a", f, at=datetime.now())  # <- changing-argument'),
    "uuid": handler('await ctx.step("a", f, order, str(uuid4()))  # <- changing-argument'),
    "random": handler('await ctx.step("a", f, random.choice(items))  # <- changing-argument'),
    "nested": handler('await ctx.step("a", f, {"at": [time.time()]})  # <- changing-argument'),
    "a variable": handler(
        'began = time.time()\nawait ctx.step("a", f, began)  # <- changing-argument'
    ),
    "attempt": handler('await ctx.step("a", f, ctx.attempt)  # <- changing-argument'),
    "bytes": handler('await ctx.step("a", f, os.urandom(8).hex())  # <- changing-argument'),
    "sync": sync_handler('ctx.step("a", f, uuid.uuid1().hex)  # <- changing-argument'),
    "in an inner function": handler(
        """
        async def one():
            await ctx.step("a", f, time.time())  # <- changing-argument

        await one()
        """
    ),
}

ARGUMENTS_RIGHT = {
    "recorded time": handler('await ctx.step("a", f, await ctx.now())'),
    "recorded id": handler('await ctx.step("a", f, str(await ctx.uuid()))'),
    "recorded, in a thread": sync_handler('ctx.step("a", f, ctx.random() * 7)'),
    "in the step": handler('await ctx.step("a", lambda: f(time.time()))'),
    "made by a step": handler('at = await ctx.step("at", time.time)\nawait ctx.step("a", f, at)'),
    "a lambda as argument": handler('await ctx.step("a", f, lambda: time.time())'),
    "retry": handler('await ctx.step("a", f, timeout=random.random())'),
    "another call": handler('await ctx.step("a", f, order)\nprint(time.time())'),
    "id of the run": handler('await ctx.step("a", f, ctx.run_id)'),
    "seeded": handler('random.seed(7)\nawait ctx.step("a", f, random.random())'),
    "a parameter called time": module(
        """
        @app.job
        async def handle(ctx, time):
            await ctx.step("a", f, time.time())
        """
    ),
}

BRANCHES_WRONG = {
    "chance": handler(
        'if random.random() < 0.1:  # <- changing-branch\n    await ctx.step("a", f)'
    ),
    "clock": handler(
        'if datetime.now().hour < 8:  # <- changing-branch\n    await ctx.sleep("8h")'
    ),
    "else": handler(
        'if time.time() < order:  # <- changing-branch\n    pass\nelse:\n    await ctx.step("a", f)'
    ),
    "while": handler(
        'while time.time() < order:  # <- changing-branch\n    await ctx.step("a", f)'
    ),
    "a variable": handler(
        'late = time.time() > order\nif late:  # <- changing-branch\n    await ctx.step("a", f)'
    ),
    "expression": handler(
        'x = (await ctx.step("a", f)) if random.random() < 1 else 0  # <- changing-branch\nreturn x'
    ),
    "match": handler(
        """
        match random.choice(items):  # <- changing-branch
            case 1:
                await ctx.step("a", f)
        """
    ),
    "id": handler('if uuid4().int % 2:  # <- changing-branch\n    await ctx.step("a", f)'),
    "sync": sync_handler('if date.today() > order:  # <- changing-branch\n    ctx.step("a", f)'),
    "around a branch": handler(
        'if time.time() > 1:  # <- changing-branch\n    if order:\n        await ctx.step("a", f)'
    ),
}

BRANCHES_RIGHT = {
    "recorded": handler('if (await ctx.random()) < 0.1:\n    await ctx.step("a", f)'),
    "a recorded wait": handler(
        'if await ctx.wait_for("paid", timeout=60 + random.random()):\n    await ctx.step("a", f)'
    ),
    "a name that the file also binds itself": module(
        """
        if TESTING:
            random = fake

        @app.job
        async def handle(ctx):
            if random.random() < 1:
                await ctx.step("a", f)
        """
    ),
    "recorded clock": handler('if (await ctx.now()).hour < 8:\n    await ctx.sleep("8h")'),
    "a log around no call": handler('if random.random() < 1:\n    log(1)\nawait ctx.step("a", f)'),
    "input": handler('if order.at < order.until:\n    await ctx.step("a", f)'),
    "in a step": handler(
        """
        def pick():
            if random.random() < 0.5:
                return 1

        await ctx.step("a", pick)
        """
    ),
    "a measured time": handler(
        'began = time.time()\nawait ctx.step("a", f)\nprint(time.time() - began)'
    ),
    "made by a step": handler(
        'lucky = await ctx.step("draw", random.random)\nif lucky < 1:\n    await ctx.step("a", f)'
    ),
    "the test itself": handler('if await ctx.step("a", f):\n    print(time.time())'),
    "loop over the input": handler('for item in items:\n    await ctx.step("a", f, item)'),
}

WRONG = {**NAMES_WRONG, **{f"argument: {k}": v for k, v in ARGUMENTS_WRONG.items()}} | {
    f"branch: {k}": v for k, v in BRANCHES_WRONG.items()
}
RIGHT = {**NAMES_RIGHT, **{f"argument: {k}": v for k, v in ARGUMENTS_RIGHT.items()}} | {
    f"branch: {k}": v for k, v in BRANCHES_RIGHT.items()
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str) -> None:
    check_wrong(WRONG[name])


@pytest.mark.parametrize("name", RIGHT)
def test_is_not_found(name: str) -> None:
    check_right(RIGHT[name])
