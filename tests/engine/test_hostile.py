"""Handlers are foreign code: whatever they do, the run ends and the worker goes on."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, holds, opened, reached, seats_taken, working
from windlass import (
    Cancel,
    Context,
    Fail,
    Retry,
    RetryAfter,
    Run,
    Snooze,
    Status,
    SyncContext,
    Windlass,
)
from windlass.sources import Sources


class OwnBase(BaseException):
    """Not even an Exception."""


class NoText(Exception):
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoTextAtAll(Exception):
    """An error that, when shown, tries to end the process."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class HugeText(Exception):
    """An error with far too much to say."""

    def __str__(self) -> str:
        return "x" * 5_000_000


def raising(error: BaseException) -> Callable[[], Any]:
    def body() -> Any:
        raise error

    return body


def deep() -> Any:
    return deep()


GROUP = ExceptionGroup("g", [ValueError("a"), KeyError("b")])
RAISED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "exit": (raising(SystemExit(3)), "SystemExit", "3"),
    "interrupt": (raising(KeyboardInterrupt()), "KeyboardInterrupt", ""),
    "generator": (raising(GeneratorExit()), "GeneratorExit", ""),
    "cancel": (raising(asyncio.CancelledError("me")), "asyncio.exceptions.CancelledError", "me"),
    "timeout": (raising(TimeoutError("own")), "TimeoutError", "own"),
    "base": (raising(OwnBase("b")), f"{__name__}.OwnBase", "b"),
    "group": (raising(GROUP), "ExceptionGroup", "g (2 sub-exceptions)"),
    "recursion": (deep, "RecursionError", "maximum recursion depth exceeded"),
    "no text": (raising(NoText()), f"{__name__}.NoText", "<not available: RuntimeError>"),
    "no text at all": (raising(NoTextAtAll()), f"{__name__}.NoTextAtAll", "<not available: "),
    "huge": (raising(HugeText()), f"{__name__}.HugeText", "x" * 10_000),
    "nul": (raising(ValueError("a\0b\ud800")), "ValueError", "a\\x00b\\ud800"),
}


def define(
    app: Windlass, bodies: dict[str, Any], retry: Retry | None = None
) -> tuple[Any, Any, Any]:
    """Jobs that do what they are named, on the loop and in threads, and one that is tame."""

    @app.job(max_attempts=1, retry=retry)
    async def on_loop(what: str) -> Any:
        return bodies[what]()

    @app.job(max_attempts=1, retry=retry)
    def in_thread(what: str) -> Any:
        return bodies[what]()

    @app.job
    async def tame() -> str:
        return "fine"

    return on_loop, in_thread, tame


async def test_whatever_is_raised_fails_the_run_alone(
    app: Windlass, subtests: pytest.Subtests
) -> None:
    on_loop, in_thread, tame = define(app, {name: body for name, (body, *_) in RAISED.items()})
    async with working(app) as worker:
        for name, (_, kind, message) in RAISED.items():
            for job in (on_loop, in_thread):
                with subtests.test(name, job=job.name):
                    run: Run = await job.aenqueue(name)
                    await run.await_end(timeout=10)
                    assert (run.status, run.failure, run.failures) == ("failed", "exhausted", 1)
                    assert run.error is not None
                    assert run.error.type == kind
                    assert message in run.error.message
        assert await app.aresult((await tame.aenqueue()).id, timeout=10) == "fine"
        await holds(worker, 0)


async def test_whatever_is_raised_is_retried_as_other_errors_are(app: Windlass) -> None:
    @app.job(retry=Retry.fixed(0))
    async def exits(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise SystemExit
        if ctx.attempt == 2:
            raise asyncio.CancelledError
        return "done"

    run = await exits.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "done"
    assert (await run.arefresh()).failures == 2


class Late(RetryAfter):
    """An error that asks for a delay of its own, unchecked."""

    def __init__(self, delay: Any) -> None:
        self.delay = delay


class NoDelay(RetryAfter):
    """An error that does not say which."""

    def __init__(self) -> None: ...


class Liar(Exception):
    """An error of which nobody can ask what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise SystemExit("not telling")


class Later(Snooze):
    """The same of a value that is returned."""

    __slots__ = ()

    def __init__(self, delay: Any) -> None:
        object.__setattr__(self, "delay", delay)


class NoValue(Snooze):
    __slots__ = ()

    def __init__(self) -> None: ...


class NoReason(Fail):
    __slots__ = ()

    def __init__(self) -> None: ...


class Undecided:
    """Neither true nor false."""

    def __bool__(self) -> bool:
        raise KeyboardInterrupt


class OddReason(Cancel):
    __slots__ = ()

    def __init__(self) -> None:
        object.__setattr__(self, "reason", Undecided())


NONSENSE = (math.inf, math.nan, -1, 1e15, 10**400, None, "soon", timedelta.max)
IN_VAIN: dict[str, tuple[Callable[[], Any], str]] = {
    "no delay": (raising(NoDelay()), f"{__name__}.NoDelay"),
    **{f"in {n!r:.9}": (raising(Late(n)), f"{__name__}.Late") for n in NONSENSE},
    "no snooze": (NoValue, "AttributeError"),
    **{f"snooze {n!r:.9}": (partial(Later, n), "windlass.errors.BadDuration") for n in NONSENSE},
    "no reason": (NoReason, "AttributeError"),
    "odd reason": (OddReason, "KeyboardInterrupt"),
}


async def test_what_asks_for_no_possible_delay_is_tried_as_other_failures_are(
    app: Windlass, subtests: pytest.Subtests
) -> None:
    on_loop, in_thread, tame = define(
        app, {name: body for name, (body, _) in IN_VAIN.items()}, Retry.fixed(0)
    )
    async with working(app, concurrency=1, threads=1) as worker:
        for name, (_, kind) in IN_VAIN.items():
            for job in (on_loop, in_thread):
                with subtests.test(name, job=job.name):
                    run: Run = await job.using(max_attempts=2).aenqueue(name)
                    await run.await_end(timeout=10)
                    assert (run.status, run.failure, run.failures) == ("failed", "exhausted", 2)
                    assert run.error is not None
                    assert run.error.type == kind
        assert await app.aresult((await tame.aenqueue()).id, timeout=10) == "fine"
        await holds(worker, 0)
        assert seats_taken(worker) == 0


async def test_delay_given_as_text_is_understood(app: Windlass) -> None:
    """As a server writes it: Retry-After: 30."""
    bodies = {"raised": raising(Late("30")), "returned": partial(Later, "30s")}
    on_loop, in_thread, _ = define(app, bodies)
    runs = [
        await job.using(max_attempts=2).aenqueue(how)
        for job in (on_loop, in_thread)
        for how in bodies
    ]
    async with working(app):
        for run in runs:
            found = await reached(app, run.id, Status.SCHEDULED)
            assert found.due_at is not None
            assert found.due_at - found.attempts[0].finished_at == timedelta(seconds=30)


@pytest.mark.parametrize("kind", ["on_loop", "in_thread"])
async def test_error_that_no_policy_can_judge_fails_the_run_for_good(
    app: Windlass, kind: str
) -> None:
    on_loop, in_thread, tame = define(app, {"lies": raising(Liar())})
    job = on_loop if kind == "on_loop" else in_thread
    async with working(app, concurrency=1, threads=1) as worker:
        run: Run = await job.using(max_attempts=5).aenqueue("lies")
        await run.await_end(timeout=10)
        assert (run.status, run.failure, run.attempt) == ("failed", "fatal", 1)
        assert run.error is not None
        assert (run.error.type, run.error.message) == ("SystemExit", "not telling")
        assert await app.aresult((await tame.aenqueue()).id, timeout=10) == "fine"
        assert await app.aresult((await tame.aenqueue()).id, timeout=10) == "fine"
        await holds(worker, 0)
        assert seats_taken(worker) == 0


class Unfit:
    """A value without a form in JSON."""


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


STORED = "The result cannot be stored"
TOO_LARGE = (
    "The result is 1,048,577 bytes of JSON and the limit is 1,048,576: "
    "store it elsewhere and pass a pointer."
)
RETURNED: dict[str, tuple[Callable[[], Any], str]] = {
    "object": (Unfit, f"{STORED}: Unfit has no form in JSON."),
    "nan": (lambda: {"a": math.nan}, f"{STORED} at $.a: nan is not a number that JSON has."),
    "nul": (lambda: "a\0", f"{STORED}: it has a NUL character."),
    "surrogate": (lambda: "\ud800", f"{STORED}: a lone surrogate is no character."),
    "cycle": (cyclic, f"{STORED}: it contains itself or nests deeper than 100 levels."),
    "integer": (lambda: 2**64, f"{STORED}: an integer of more than 64 bits; pass it as text."),
    "large": (lambda: "x" * 1_048_575, TOO_LARGE),
}


async def test_result_that_cannot_be_stored_fails_for_good(
    app: Windlass, subtests: pytest.Subtests
) -> None:
    on_loop, in_thread, _ = define(app, {name: body for name, (body, *_) in RETURNED.items()})
    async with working(app):
        for name, (_, message) in RETURNED.items():
            for job in (on_loop, in_thread):
                with subtests.test(name, job=job.name):
                    # Trying again would do the work again for the same result.
                    run = await job.using(max_attempts=5).aenqueue(name)
                    await run.await_end(timeout=10)
                    assert (run.status, run.failure, run.attempt) == ("failed", "fatal", 1)
                    assert run.error is not None
                    kind = "PayloadTooLarge" if name == "large" else "BadPayload"
                    assert run.error.type == f"windlass.errors.{kind}"
                    assert run.error.message == message
                    assert run.result is None


async def test_largest_result_is_stored(app: Windlass) -> None:
    largest = "x" * 1_048_574

    @app.job
    async def large() -> str:
        return largest

    run = await large.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == largest


async def test_result_whose_encoding_raises_fails_the_run(app: Windlass) -> None:
    """By code of the value's own, and by what no encoder would raise."""

    class Sly(int):
        def __int__(self) -> int:
            raise SystemExit("caught in the act")

    @app.job(max_attempts=1)
    async def on_loop() -> Any:
        return {"a": Sly(1)}

    @app.job(max_attempts=1)
    def in_thread() -> Any:
        return {"a": Sly(1)}

    @app.job
    async def tame() -> str:
        return "fine"

    async with working(app):
        for job in (on_loop, in_thread):
            run = await job.aenqueue()
            await run.await_end(timeout=10)
            assert (run.status, run.failure, run.result) == ("failed", "exhausted", None)
            assert run.error is not None
            assert (run.error.type, run.error.message) == ("SystemExit", "caught in the act")
        assert await app.aresult((await tame.aenqueue()).id, timeout=10) == "fine"


def until_renewed(app: Windlass, until: datetime) -> None:
    """Wait, without a loop, until the one worker has a lease that lasts so long."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        [info] = app.store.run(app.store.operations.list_workers())
        if info.alive_until is not None and info.alive_until >= until:
            return
        time.sleep(0.005)
    raise TimeoutError("It does not renew.")


async def test_handler_that_blocks_the_loop_keeps_its_lease(url: str) -> None:
    """The heartbeat has a thread of its own: others see a worker that lives."""
    sources = Sources.manual()
    reaped: list[int] = []
    async with opened(url, sources=sources) as app, opened(url, sources=sources) as other:
        lease = app.settings.lease

        @app.job(max_attempts=1)
        async def blocks(ctx: Context) -> int:
            # What any other worker does, for more than twice the lease.
            sweep = other.store.operations.sweep(
                dispatch=True, expire=True, reap=True, max_crashes=3, limit=100
            )
            for _ in range(11):
                sources.clock.advance(lease / 5)
                until_renewed(other, sources.now() + timedelta(seconds=lease))
                reply = other.store.run(sweep)
                reaped.append(reply.reaped + reply.crashed)
            return ctx.attempt

        @app.job
        def beside(ctx: SyncContext) -> int:
            return ctx.attempt

        run, thread = await blocks.aenqueue(), await beside.aenqueue()
        async with working(app), asyncio.timeout(PATIENCE * 2):  # by another clock than theirs
            assert await app.aresult(run.id) == 1
            assert await app.aresult(thread.id) == 1
        assert (await run.arefresh()).crash_count == 0
    assert reaped == [0] * 11


async def test_handler_that_cancels_its_own_task_has_failed(app: Windlass) -> None:
    @app.job(max_attempts=1)
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @app.job
    async def tame() -> str:
        return "fine"

    run = await cancels_itself.aenqueue()
    async with working(app):
        await run.await_end(timeout=10)
        assert await app.aresult((await tame.aenqueue()).id, timeout=10) == "fine"
    assert (run.status, run.attempt) == ("failed", 1)
    assert run.error is not None
    assert run.error.type == "asyncio.exceptions.CancelledError"


async def test_handler_that_leaves_threads_and_tasks_behind(app: Windlass) -> None:
    go, over = threading.Event(), asyncio.Event()

    @app.job
    async def careless() -> str:
        threading.Thread(target=go.wait, daemon=True).start()
        asyncio.get_running_loop().create_task(over.wait())
        return "done"

    run = await careless.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "done"
    go.set()
    over.set()
