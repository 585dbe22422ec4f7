"""Durable steps, sleeps and signals, under the virtual clock: what a handler may count on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from windlass import Context, Failure, Fatal, Retry, Status, SyncContext, Windlass
from windlass.errors import BadOption, IllegalTransition, StepFailed, WaitTimeout
from windlass.testing import clock_of, drain

ONE_TRY = {"max_attempts": 1}


@dataclass
class Charge:
    amount: int
    at: datetime


class Calls:
    """Counts what is called, and may fail the first times."""

    def __init__(self, failures: int = 0) -> None:
        self.names: list[str] = []
        self.failures = failures

    def note(self, name: str, value: Any = None) -> Any:
        self.names.append(name)
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError(f"no answer for {name}")
        return name if value is None else value

    async def anote(self, name: str, value: Any = None) -> Any:
        return self.note(name, value)


@pytest.fixture
def calls() -> Calls:
    return Calls()


def crash_once(app: Windlass, seen: list[int]) -> None:
    """Raise in the first attempt."""
    if len(seen) == 1:
        raise ConnectionError("the attempt fails here")


def test_a_step_runs_once_whatever_becomes_of_its_attempts(app: Windlass, calls: Calls) -> None:
    attempts: list[int] = []

    @app.job(retry=Retry.fixed("1s"))
    async def order(ctx: Context) -> list[str]:
        attempts.append(ctx.attempt)
        first = await ctx.step("first", calls.anote, "a")
        if len(attempts) == 1:
            raise ConnectionError
        second = await ctx.step("second", calls.note, "b")
        if len(attempts) == 2:
            raise ConnectionError
        return [first, second]

    run = order.enqueue()
    drain(app, until="1h").check()

    assert run.refresh().result == ["a", "b"]
    assert attempts == [1, 2, 3]
    assert calls.names == ["a", "b"]


def test_the_same_in_a_thread(app: Windlass, calls: Calls) -> None:
    attempts: list[int] = []

    @app.job(retry=Retry.fixed("1s"))
    def order(ctx: SyncContext) -> list[str]:
        attempts.append(ctx.attempt)
        first = ctx.step("first", calls.note, "a")
        crash_once(app, attempts)
        return [first, ctx.step("second", calls.note, "b")]

    run = order.enqueue()
    drain(app, until="1h").check()

    assert run.refresh().result == ["a", "b"]
    assert calls.names == ["a", "b"]


def test_a_handler_sees_the_same_types_in_a_replay(app: Windlass) -> None:
    seen: list[Any] = []
    at = datetime(2030, 1, 2, tzinfo=UTC)

    def charge() -> Charge:
        return Charge(7, at)

    @app.job(retry=Retry.fixed("1s"))
    async def pay(ctx: Context) -> None:
        seen.append(await ctx.step("charge", charge))
        seen.append(await ctx.now())
        seen.append(await ctx.uuid())
        seen.append(await ctx.random())
        crash_once(app, [1] * (len(seen) // 4))

    pay.enqueue()
    drain(app, until="1h").check()

    assert seen[:4] == seen[4:]
    assert seen[0] == Charge(7, at)


def test_steps_of_one_name_are_numbered_by_their_calls(app: Windlass) -> None:
    """Not by who comes first: tasks that overtake each other do not swap their values."""
    attempts: list[int] = []
    gate = asyncio.Event()

    async def work(n: int) -> int:
        if n == 0 and len(attempts) == 1:
            await gate.wait()
        if n == 2:
            gate.set()
        return n

    @app.job(retry=Retry.fixed("1s"))
    async def fan(ctx: Context) -> list[int]:
        attempts.append(ctx.attempt)
        found = await asyncio.gather(*(ctx.step("work", work, n) for n in range(3)))
        crash_once(app, attempts)
        return list(found)

    run = fan.enqueue()
    drain(app, until="1h").check()

    assert run.refresh().result == [0, 1, 2]
    assert {step.path for step in run.steps()} == {"work", "work#2", "work#3"}


def test_a_key_names_a_step_whatever_its_turn(app: Windlass, calls: Calls) -> None:
    order = [["x", "y"], ["y", "x"]]

    @app.job(retry=Retry.fixed("1s"))
    async def each(ctx: Context) -> list[str]:
        mine = order[ctx.attempt - 1]
        found = [await ctx.step("do", calls.anote, name, key=name) for name in mine]
        if ctx.attempt == 1:
            raise ConnectionError
        return found

    run = each.enqueue()
    drain(app, until="1h").check()

    assert run.refresh().result == ["y", "x"]
    assert calls.names == ["x", "y"]


def test_nested_steps_have_paths_and_the_outer_record_wins(app: Windlass, calls: Calls) -> None:
    @app.job(retry=Retry.fixed("1s"))
    async def nest(ctx: Context) -> str:
        async def outer() -> str:
            one = await ctx.step("inner", calls.anote, "one")
            two = await ctx.step("inner", calls.anote, "two")
            calls.names.append("outer")
            return f"{one} {two}"

        found = await ctx.step("outer", outer)
        if ctx.attempt == 1:
            raise ConnectionError
        return found

    run = nest.enqueue()
    drain(app, until="1h").check()

    assert run.refresh().result == "one two"
    assert calls.names == ["one", "two", "outer"]
    assert {step.path for step in run.steps()} == {"outer", "outer/inner", "outer/inner#2"}


@pytest.mark.parametrize("pause", ["0s", "1h"])  # it is tried again at once, or by another attempt
def test_nested_steps_are_kept_when_the_outer_one_is_tried_again(
    app: Windlass, calls: Calls, pause: str
) -> None:
    calls.failures = 2

    @app.job(retry=Retry.fixed("1ms"))
    async def nest(ctx: Context) -> Any:
        async def outer() -> list[Any]:
            return [
                await ctx.step("inner", calls.names.append, "one"),
                await ctx.step("inner", calls.names.append, "two"),
                calls.note("outer"),
            ]

        return await ctx.step("outer", outer, retry=Retry.fixed(pause, jitter=0))

    run = nest.enqueue()
    drain(app, with_scheduled=True).check()

    assert calls.names == ["one", "two", "outer", "outer", "outer"]
    assert {step.path for step in run.steps()} == {"outer", "outer/inner", "outer/inner#2"}


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_step_is_tried_as_its_job_is(app: Windlass, kind: str) -> None:
    calls = Calls(failures=3)
    clock, times = clock_of(app), list[datetime]()

    def body() -> str:
        times.append(clock.now())
        return str(calls.note("ok"))

    @app.job(name="async", retry=Retry.fixed("1h", jitter=0), max_attempts=4)
    async def on_loop(ctx: Context) -> str:
        return await ctx.step("call", body)

    @app.job(name="sync", retry=Retry.fixed("1h", jitter=0), max_attempts=4)
    def in_thread(ctx: SyncContext) -> str:
        return ctx.step("call", body)

    run = (on_loop if kind == "async" else in_thread).enqueue()
    drain(app, until="1d").check()

    found = run.refresh()
    assert (found.result, found.failures) == ("ok", 0)
    assert [b - a for a, b in pairwise(times)] == [timedelta(hours=1)] * 3
    (step,) = found.steps()
    assert (step.failures, step.state) == (3, "done")


def test_a_step_that_fails_for_good_fails_the_same_way_again(app: Windlass) -> None:
    calls, seen = Calls(failures=99), list[str]()

    @app.job(retry=Retry.fixed("1s"))
    async def pay(ctx: Context) -> str:
        try:
            await ctx.step("charge", calls.anote, "card", max_attempts=2)
        except StepFailed as error:
            seen.append(str(error))
        if ctx.attempt == 2:
            raise ConnectionError
        return "paid by invoice"

    run = pay.enqueue()
    drain(app, until="1h").check()

    assert run.refresh().result == "paid by invoice"
    assert calls.names == ["card", "card"]
    assert set(seen) == {"Step 'charge' failed 2 times: ConnectionError: no answer for card"}
    assert len(seen) == 2


def test_a_run_fails_at_once_by_a_step_that_nobody_catches(app: Windlass) -> None:
    calls = Calls(failures=99)

    @app.job(max_attempts=5, retry=Retry.fixed("1s"))
    async def pay(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step("charge", calls.anote, "card", max_attempts=2))

    run = pay.enqueue()
    drain(app, until="1h")

    found = run.refresh()
    assert (found.status, found.failure) == (Status.FAILED, Failure.EXHAUSTED)
    assert (calls.names, found.failures) == (["card", "card"], 1)


@pytest.mark.parametrize(
    ("error", "options", "failure"),
    [
        (Fatal("no"), {}, Failure.FATAL),
        (KeyError("no"), {"fatal": KeyError}, Failure.FATAL),
        (TimeoutError("no"), {"max_attempts": 1}, Failure.TIMEOUT),
    ],
)
def test_some_errors_are_not_tried_again(
    app: Windlass, error: Exception, options: dict[str, Any], failure: Failure
) -> None:
    tries: list[int] = []

    def refuse() -> None:
        tries.append(1)
        raise error

    @app.job
    async def pay(ctx: Context) -> None:
        await ctx.step("charge", refuse, **options)

    run = pay.enqueue()
    drain(app, until="1h")

    assert (run.refresh().failure, len(tries)) == (failure, 1)


def test_a_value_that_cannot_be_stored_is_a_failure_for_good(app: Windlass) -> None:
    tries: list[int] = []

    def make() -> object:
        tries.append(1)
        return object()

    @app.job
    async def work(ctx: Context) -> None:
        await ctx.step("make", make)

    run = work.enqueue()
    drain(app, until="1h")

    found = run.refresh()
    assert (found.failure, len(tries)) == (Failure.FATAL, 1)
    assert found.error is not None
    assert "result of step 'make'" in found.error.message


def test_a_run_of_ninety_days(app: Windlass, calls: Calls) -> None:
    clock = clock_of(app)
    began = clock.now()

    @app.job
    async def trial(ctx: Context) -> int:
        for month in range(3):
            await ctx.step("mail", calls.anote, f"month {month}")
            await ctx.sleep("a month", days=30)
        return (await ctx.now() - began).days

    run = trial.enqueue()
    drain(app, until="91d").check()

    assert run.refresh().result == 90
    assert calls.names == ["month 0", "month 1", "month 2"]
    assert {attempt.outcome for attempt in run.attempts[:-1]} == {"waited"}


def test_a_run_that_waits_goes_on_with_its_signal(app: Windlass) -> None:
    @app.job
    async def pay(ctx: Context) -> Any:
        return await ctx.wait_for("paid", timeout="7d")

    run = pay.enqueue()
    drain(app)
    assert run.refresh().status is Status.WAITING

    sent = run.signal("paid", {"amount": 7}, key="invoice-1")
    again = app.signal(run.id, "paid", {"amount": 8}, key="invoice-1")
    drain(app).check()

    assert (sent.created, again.created, again.number) == (True, False, sent.number)
    assert run.refresh().result == {"amount": 7}
    with pytest.raises(IllegalTransition, match="succeeded: signal is"):
        run.signal("paid")


@pytest.mark.parametrize("default", [True, False])
def test_a_wait_ends_when_its_time_is_over(app: Windlass, default: bool) -> None:
    caught: list[str] = []

    @app.job
    async def pay(ctx: Context) -> Any:
        if default:
            return await ctx.wait_for("paid", timeout="7d", default="unpaid")
        try:
            return await ctx.wait_for("paid", timeout="7d")
        except WaitTimeout as error:
            caught.append(str(error))
            return "unpaid"

    run = pay.enqueue()
    drain(app, until="8d").check()

    assert run.refresh().result == "unpaid"
    assert caught == ([] if default else ["Nothing came in the time that 'paid' waits."])


def test_the_first_of_several_wins_and_stays_the_winner(app: Windlass, calls: Calls) -> None:
    @app.job(retry=Retry.fixed("1s"))
    async def pay(ctx: Context) -> Any:
        name, value = await ctx.first(paid=ctx.wait_for("paid"), late=ctx.sleep("late", "3d"))
        await ctx.step("note", calls.anote, name)
        if len(calls.names) == 1 and ctx.failures == 0:
            raise ConnectionError
        return [name, value]

    late, paid = pay.enqueue(), pay.enqueue()
    drain(app)
    paid.signal("paid", 7)
    drain(app, until="4d").check()

    assert paid.refresh().result == ["paid", 7]
    assert late.refresh().result == ["late", None]


@pytest.mark.parametrize("way", ["gather", "group", "wait", "task"])
def test_every_way_to_wait_gives_up_the_seat(app: Windlass, way: str) -> None:
    attempts: list[int] = []

    @app.job
    async def both(ctx: Context) -> list[Any]:
        attempts.append(ctx.attempt)
        waits = [ctx.wait_for("a"), ctx.wait_for("b")]
        if way == "gather":
            return list(await asyncio.gather(*waits))
        if way == "group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(wait) for wait in waits]
            return [task.result() for task in tasks]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        if way == "wait":
            await asyncio.wait(tasks)
        return [await task for task in tasks]

    run = both.enqueue()
    drain(app)
    assert (run.refresh().status, sorted(run.record.waits)) == (Status.WAITING, ["a", "b"])
    run.signal("b", 2)
    drain(app)
    assert (run.refresh().status, run.record.waits) == (Status.WAITING, ("a",))
    run.signal("a", 1)
    drain(app).check()

    assert run.refresh().result == [1, 2]
    assert attempts == [1, 2, 3]


def test_a_handler_that_swallows_its_suspension_does_not_count(app: Windlass) -> None:
    @app.job
    async def stubborn(ctx: Context) -> str:
        found = await asyncio.gather(ctx.wait_for("a"), return_exceptions=True)
        return str(found)

    @app.job
    def sly(ctx: SyncContext) -> str:
        try:
            return str(ctx.wait_for("a"))
        except BaseException:  # noqa: BLE001 - what the test is about
            return "swallowed"

    runs = [stubborn.enqueue(), sly.enqueue()]
    drain(app)
    assert {run.refresh().status for run in runs} == {Status.WAITING}
    for run in runs:
        run.signal("a", "here")
    drain(app).check()

    assert [run.refresh().result for run in runs] == ["['here']", "here"]


def test_another_input_than_the_recorded_one_ends_the_run(app: Windlass, calls: Calls) -> None:
    @app.job(retry=Retry.fixed("1s"))
    async def work(ctx: Context) -> None:
        await ctx.step("send", calls.anote, f"attempt {ctx.attempt}")
        raise ConnectionError

    run = work.enqueue()
    drain(app, until="1h")

    found = run.refresh()
    assert (found.status, found.failure) == (Status.FAILED, Failure.NONDETERMINISM)
    assert found.error is not None
    assert '["attempt 1"]' in found.error.message
    assert '["attempt 2"]' in found.error.message


def test_another_kind_than_the_recorded_one_ends_the_run(app: Windlass, calls: Calls) -> None:
    @app.job(retry=Retry.fixed("1s"))
    async def work(ctx: Context) -> None:
        if ctx.attempt == 1:
            await ctx.step("it", calls.anote, "x")
            raise ConnectionError
        await ctx.sleep("it", "1h")

    run = work.enqueue()
    drain(app, until="1d")

    assert run.refresh().failure is Failure.NONDETERMINISM


def test_steps_that_are_not_asked_for_any_more_are_told(
    app: Windlass, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(retry=Retry.fixed("1s"))
    async def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            await ctx.step("old", calls.anote, "x")
            raise ConnectionError
        return await ctx.step("new", calls.anote, "done")

    run = work.enqueue()
    drain(app, until="1h").check()

    assert run.refresh().result == "done"
    assert "recorded steps were not asked for" in caplog.text


def test_old_runs_keep_their_way_by_version(app: Windlass, calls: Calls) -> None:
    new_code = False

    @app.job(retry=Retry.fixed("1s"))
    async def work(ctx: Context) -> str:
        ways = []
        if new_code:
            ways.append("new" if await ctx.version("second mail") else "old")
        await ctx.step("mail", calls.anote, "x")
        await ctx.sleep("1h")
        return " ".join(ways)

    old = work.enqueue()
    drain(app)
    new_code = True
    new = work.enqueue()
    drain(app, until="2h").check()

    assert (old.refresh().result, new.refresh().result) == ("old", "new")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda ctx: ctx.step("a/b", str), "has a character"),
        (lambda ctx: ctx.step("", str), "1 to 200"),
        (lambda ctx: ctx.step("a", 7), "cannot be called"),
        (lambda ctx: ctx.step("a", str, max_attempts=0), "max_attempts"),
        (lambda ctx: ctx.sleep(), "give a length"),
        (lambda ctx: ctx.sleep(moons=3), "'moons' is not one of"),
        (lambda ctx: ctx.wait_for("a#1"), "has a character"),
    ],
)
def test_nonsense_is_refused_at_the_call(
    app: Windlass, call: Callable[[SyncContext], object], why: str
) -> None:
    said: list[str] = []

    @app.job(max_attempts=1)
    def work(ctx: SyncContext) -> None:
        with pytest.raises(BadOption) as caught:
            call(ctx)
        said.append(str(caught.value))

    work.enqueue()
    drain(app).check()
    assert why in said[0]
