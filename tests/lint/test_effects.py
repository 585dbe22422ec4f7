"""Side effects, and enqueues, outside steps."""

import pytest

from tests.lint.kit import check_right, check_wrong, handler, module, sync_handler

STEP = 'await ctx.step("a", f)'


def before(line: str) -> str:
    """A handler that does something, then a step."""
    return handler(f"{line}\n{STEP}")


JOB = "@app.job\nasync def mail(to): ...\n\n@app.job\nasync def handle(ctx, to):\n"


def jobs(line: str) -> str:
    """A file with two jobs, one of which does something, then a step."""
    return module(f"{JOB}    {line}\n    {STEP}\n")


EFFECTS_WRONG = {
    "requests": before("requests.post(order)  # <- effect"),
    "httpx": before("found = httpx.get(order)  # <- effect"),
    "subprocess": before('subprocess.run(["rm", order])  # <- effect'),
    "write": before('open(order, "w").write("x")  # <- effect'),
    "append by keyword": before('file = open(order, mode="ab")  # <- effect'),
    "remove": before("os.remove(order)  # <- effect"),
    "rename": before("os.rename(order, items)  # <- effect"),
    "path": before('(Path("a") / order).write_text("x")  # <- effect'),
    "with": handler(f'with open(order, "w") as file:  # <- effect\n    {STEP}'),
    "condition": handler(f"if requests.get(order).ok:  # <- effect\n    {STEP}"),
    "argument": handler('await ctx.step("a", f, requests.get(order).text)  # <- effect'),
    "next round": handler(f"for item in items:\n    {STEP}\n    requests.put(item)  # <- effect"),
    "in a branch": handler(f"if order:\n    requests.post(order)  # <- effect\n{STEP}"),
    "before a break": handler(
        f"for item in items:\n    requests.post(item)  # <- effect\n    break\n{STEP}"
    ),
    "before a continue": handler(
        f"for item in items:\n    if item:\n        requests.post(item)  # <- effect\n"
        f"        continue\n    {STEP}"
    ),
    "before a finally": handler(
        f"try:\n    requests.post(order)  # <- effect\nfinally:\n    {STEP}"
    ),
    "in an except": handler(
        f"try:\n    g()\nexcept ValueError:\n    requests.post(order)  # <- effect\n{STEP}"
    ),
    "sync": sync_handler('os.system(order)  # <- effect\nctx.sleep("3d")'),
    "alias": module(
        f"""
        from subprocess import check_call as shell

        @app.job
        async def handle(ctx):
            shell("x")  # <- effect
            {STEP}
        """
    ),
    "a helper of a handler": module(
        f"""
        async def pay(ctx: Context):
            requests.post("x")  # <- effect
            {STEP}

        @app.job
        async def handle(ctx):
            await pay(ctx)
        """
    ),
}

EFFECTS_RIGHT = {
    "in a step": handler('await ctx.step("a", requests.post, order)\nawait ctx.now()'),
    "in a lambda": handler(f'await ctx.step("b", lambda: requests.post(order))\n{STEP}'),
    "in an inner function": handler(
        f"""
        def body():
            requests.post(order)

        await ctx.step("b", body)
        {STEP}
        """
    ),
    "last": handler(f"{STEP}\nrequests.post(order)"),
    "on the way out": handler(f"if order:\n    requests.post(order)\n    return\n{STEP}"),
    "returned": handler(f"if order:\n    return requests.post(order)\n{STEP}"),
    "the other arm": handler(f"if order:\n    requests.post(order)\nelse:\n    {STEP}"),
    "read": before("data = open(order).read()"),
    "read in binary": before('data = open(order, "rb").read()'),
    "no durable calls": handler("requests.post(order)\nctx.progress(1)"),
    "guarded by the attempt": handler(f"if ctx.attempt == 1:\n    requests.post(order)\n{STEP}"),
    "an own name": before("requests = fake\nrequests.post(order)"),
    "an except of the step": handler(
        f"try:\n    {STEP}\nexcept ValueError:\n    requests.post(order)"
    ),
    "another case": handler(
        f"match order:\n    case 1:\n        requests.post(order)\n    case 2:\n        {STEP}"
    ),
    "before a break": handler(
        f"for item in items:\n    requests.post(item)\n    break\nelse:\n    {STEP}"
    ),
    "a helper that may be a step": module(
        f"""
        async def pay(ctx: Context):
            requests.post("x")
            {STEP}
        """
    ),
    "a helper that is a step": module(
        f"""
        async def pay(ctx: Context):
            requests.post("x")
            {STEP}

        @app.job
        async def handle(ctx):
            await pay(ctx)
            await ctx.step("pay", pay, ctx)
        """
    ),
}

ENQUEUES_WRONG = {
    "enqueue": jobs("mail.enqueue(to)  # <- enqueue"),
    "aenqueue": jobs("await mail.aenqueue(to)  # <- enqueue"),
    "itself": jobs("await handle.aenqueue(to)  # <- enqueue"),
    "using no key": jobs('await mail.using(delay="1h").aenqueue(to)  # <- enqueue'),
    "kept": jobs("run = await mail.aenqueue(to)  # <- enqueue"),
    "in a branch": jobs("if to: await mail.aenqueue(to)  # <- enqueue"),
    "in a list": jobs("[await mail.aenqueue(who) for who in to]  # <- enqueue"),
    "unique, without a key": jobs('mail.using(unique="live").enqueue(to)  # <- enqueue'),
}

ENQUEUES_RIGHT = {
    "key": jobs('await mail.using(key=f"{ctx.run_id}:mail").aenqueue(to)'),
    "options that may have a key": jobs("await mail.using(**options).aenqueue(to)"),
    "own transaction": jobs("mail.using(connection=connection).enqueue(to)"),
    "last": module(f"{JOB}    {STEP}\n    await mail.aenqueue(to)\n"),
    "guarded": jobs("if ctx.attempt == 1: await mail.aenqueue(to)"),
    "something else": jobs("queue.enqueue(to)"),
    "of a local name": jobs("mail = keyed; mail.enqueue(to)"),
    "another decorator": jobs("mail.enqueue(to)").replace("@app.job\n", "@wrap\n@app.job\n", 1),
    "no durable calls": module(f"{JOB}    await mail.aenqueue(to)\n    await ctx.progress(1)\n"),
}

WRONG = EFFECTS_WRONG | {f"enqueue: {name}": code for name, code in ENQUEUES_WRONG.items()}
RIGHT = EFFECTS_RIGHT | {f"enqueue: {name}": code for name, code in ENQUEUES_RIGHT.items()}


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str) -> None:
    check_wrong(WRONG[name])


@pytest.mark.parametrize("name", RIGHT)
def test_is_not_found(name: str) -> None:
    check_right(RIGHT[name])
