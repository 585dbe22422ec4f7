"""Handlers that go on with other arguments: `return ContinueAs(…)`, on both stores."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass import (
    Context,
    ContinueAs,
    EventType,
    Failure,
    Retry,
    Run,
    Status,
    SyncContext,
    Windlass,
)  # fmt: skip
from windlass.errors import BadOption
from windlass.testing import arun_job, crash_after, drain, run_job


def inputs(run: Run[Any]) -> list[Any]:
    return [msgspec.json.decode(one.input) for one in run.generations()]


def test_a_run_goes_on_with_other_arguments_and_no_steps(app: Windlass) -> None:
    fetched: list[int] = []

    def fetch(page: int) -> int:
        fetched.append(page)
        return page * 10

    @app.job
    async def copy(ctx: Context, page: int, total: int = 0) -> int | ContinueAs:
        total += await ctx.step("fetch", fetch, page)
        if page < 3:
            return ContinueAs(page + 1, total=total)
        return total

    run = copy.enqueue(1)
    with crash_after(app, "fetch"):
        drain(app).check()

    assert (run.refresh().result, run.status) == (60, Status.SUCCEEDED)
    assert fetched == [1, 2, 3]
    assert inputs(run) == [{"page": 1}, {"page": 2, "total": 10}]
    assert run.input == {"page": 3, "total": 30}
    for generation, value in ((1, 10), (2, 20), (0, 30)):
        (step,) = run.steps(generation=generation)
        assert (step.path, msgspec.json.decode(step.value or b"")) == ("fetch", value)
    assert run.steps(generation=3) == []
    told = [event.data for event in run.events() if event.type is EventType.CONTINUED]
    assert told == [{"generation": 1}, {"generation": 2}]
    with pytest.raises(BadOption):
        run.steps(generation=-1)


def test_the_same_in_a_thread(app: Windlass) -> None:
    @app.job
    def count(ctx: SyncContext, n: int = 0) -> int | ContinueAs:
        ctx.step("note", str, n)
        return ContinueAs(n=n + 1) if n < 3 else n

    run = count.enqueue()
    drain(app).check()
    assert (run.refresh().result, inputs(run)) == (3, [{}, {"n": 1}, {"n": 2}])
    assert run.attempt == 4


def test_each_input_has_its_own_failures(app: Windlass) -> None:
    seen: list[tuple[int, int, int]] = []

    @app.job(max_attempts=2, retry=Retry.fixed("1s"))
    async def shaky(ctx: Context, n: int = 0) -> int | ContinueAs:
        seen.append((n, ctx.attempt, ctx.failures))
        if ctx.failures == 0:
            raise ConnectionError
        return ContinueAs(n=n + 1) if n < 2 else n

    run = shaky.enqueue()
    drain(app, until="1h").check()
    assert run.refresh().result == 2
    assert seen == [(0, 1, 0), (0, 2, 1), (1, 3, 0), (1, 4, 1), (2, 5, 0), (2, 6, 1)]


def test_signals_wait_for_the_next_generation(app: Windlass) -> None:
    @app.job
    async def collect(ctx: Context, got: list[int] | None = None) -> list[int] | ContinueAs:
        got = [*(got or []), await ctx.wait_for("item")]
        return got if len(got) == 3 else ContinueAs(got)

    run = collect.enqueue()
    for n in (1, 2, 3):
        run.signal("item", n)
    drain(app).check()
    assert run.refresh().result == [1, 2, 3]


@pytest.mark.parametrize(
    ("onward", "message"),
    [
        (ContinueAs(page="two"), "wrong page: expected `int`, got `str`"),
        (ContinueAs(pages=2), "has no argument 'pages'|needs the argument page"),
        (ContinueAs(1, 2, 3), "takes 1 positional argument, 3 were given"),
        (ContinueAs(), "needs the argument page"),
        (ContinueAs(page=float("nan")), "NaN|nan|not a number"),
    ],
)
def test_arguments_that_do_not_fit_fail_the_run(
    app: Windlass, onward: ContinueAs, message: str
) -> None:
    @app.job
    async def copy(ctx: Context, page: int) -> ContinueAs:
        await ctx.step("fetch", str, page)
        return onward

    run = copy.enqueue(page=1)
    drain(app)
    assert (run.refresh().status, run.failure, run.attempt) == (Status.FAILED, Failure.FATAL, 1)
    assert run.error is not None
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(run.error.message)
    assert (run.input, run.generations()) == ({"page": 1}, [])


def test_too_many_steps_name_the_way_out(app: Windlass) -> None:
    @app.job(max_steps=3)
    async def many(ctx: Context, steps: int) -> int:
        for n in range(steps):
            await ctx.step("note", str, n)
        return steps

    @app.job(max_steps=2)
    def many_in_thread(ctx: SyncContext, steps: int) -> int:
        for n in range(steps):
            ctx.step("note", str, n)
        return steps

    for job, most in ((many, 3), (many_in_thread, 2)):
        good, bad = job.enqueue(most), job.enqueue(most + 1)
        drain(app)
        assert good.refresh().result == most
        assert (bad.refresh().failure, bad.attempt) == (Failure.FATAL, 1)
        assert bad.error is not None
        assert f"has {most} steps, the most that a run may have" in bad.error.message
        assert "return ContinueAs(…)" in bad.error.message


@pytest.mark.parametrize("bad", [0, -1, 100_001, "3", True])
def test_a_job_that_cannot_have_so_many_steps_is_refused(app: Windlass, bad: Any) -> None:
    with pytest.raises(BadOption, match="max_steps"):
        app.job(max_steps=bad)(lambda: None)


def test_a_try_by_hand_returns_it(app: Windlass) -> None:
    @app.job
    async def copy(ctx: Context, page: int) -> ContinueAs:
        return ContinueAs(page + 1)

    assert run_job(copy, 1) == ContinueAs(page=2)
    drain(app).check()  # it left nothing behind


async def test_a_try_by_hand_in_async_code(app: Windlass) -> None:
    @app.job
    async def copy(ctx: Context, page: int) -> ContinueAs:
        return ContinueAs(page + 1)

    assert await arun_job(copy, 1) == ContinueAs(page=2)
