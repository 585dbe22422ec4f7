"""Results: waiting for them, what is told where there is none, and ids that name nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fixtures.apps import reached, within, working
from windlass import (
    BadDuration,
    Cancel,
    Failure,
    Fatal,
    ResultTimeout,
    Retry,
    RunFailed,
    RunNotFound,
    Status,
    Windlass,
)

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


async def test_result_is_what_the_handler_returned(app: Windlass) -> None:
    @app.job
    async def echo(value: Any) -> Any:
        return value

    async with working(app):
        for value in ({"a": [1, 2]}, 0, "", False, None):
            run = await echo.aenqueue(value)
            assert await app.aresult(run.id, timeout=10) == value
            assert await app.aresult(run.id) == value  # again, without waiting
            assert (await run.arefresh()).result == value


def test_sync_face_waits_for_a_worker_elsewhere(app: Windlass) -> None:
    @app.job
    async def double(n: int) -> int:
        return 2 * n

    run = double.enqueue(4)
    with asyncio.Runner() as runner:
        ready = asyncio.Event()

        async def work() -> None:
            async with working(app):
                await run.await_end(timeout=10)
                ready.set()
            await app.aclose()

        runner.run(work())
    assert app.result(run.id, timeout=1) == 8
    assert run.wait(timeout=1) is run
    assert run.result == 8


async def test_failed_run_tells_why(app: Windlass) -> None:
    @app.job(max_attempts=1)
    async def explode(name: str) -> None:
        raise LookupError(f"no {name}")

    run = await explode.aenqueue("Ada")
    async with working(app):
        with pytest.raises(RunFailed) as caught:
            await app.aresult(run.id, timeout=10)
    error = caught.value
    assert (error.run, error.status, error.failure) == (run.id, "failed", Failure.EXHAUSTED)
    assert error.error is not None
    assert (error.error.type, error.error.message) == ("LookupError", "no Ada")
    assert str(error) == f"Run {run.id} failed (exhausted): LookupError: no Ada"
    await run.arefresh()
    assert run.error is not None
    assert "in explode\n" in run.error.traceback
    assert 'raise LookupError(f"no {name}")' in run.error.traceback
    assert run.error.traceback.endswith("LookupError: no Ada\n")
    with pytest.raises(RunFailed):
        app.result(run.id)


async def test_canceled_run_has_no_result(app: Windlass) -> None:
    @app.job
    async def stop() -> Cancel:
        return Cancel("enough")

    mine = await stop.using(delay="1h").aenqueue()
    own = await stop.aenqueue()
    await mine.acancel("not needed")
    async with working(app):
        await own.await_end(timeout=10)
    for run, reason in ((mine, "not needed"), (own, "enough")):
        with pytest.raises(RunFailed) as caught:
            await app.aresult(run.id)
        assert (caught.value.status, caught.value.failure) == ("canceled", None)
        assert str(caught.value).startswith(f"Run {run.id} canceled")
        assert (await run.arefresh()).reason == reason


async def test_result_that_does_not_come_in_time(app: Windlass) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def slow() -> str:
        started.set()
        await go.wait()
        return "done"

    run = await slow.aenqueue()
    for timeout in (0, "1ms", 0.02):
        with pytest.raises(ResultTimeout) as caught:
            await app.aresult(run.id, timeout=timeout)
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.run == run.id
    with pytest.raises(ResultTimeout, match=f"Run {run.id} did not end within 0.01 s"):
        app.result(run.id, timeout="10ms")
    with pytest.raises(ResultTimeout):
        run.wait(timeout=0)
    async with working(app):
        await within(started)
        with pytest.raises(ResultTimeout):
            await run.await_end(timeout=0.02)
        go.set()
        assert await app.aresult(run.id, timeout=10) == "done"  # it went on


async def test_timeout_must_be_a_duration(app: Windlass) -> None:
    wrong: list[Any] = ["soon", -1, True]
    for timeout in wrong:
        with pytest.raises(BadDuration):
            app.result(UNKNOWN, timeout=timeout)
        with pytest.raises(BadDuration):
            await app.aresult(UNKNOWN, timeout=timeout)


async def test_result_of_a_run_that_is_retried_is_the_last_ones(app: Windlass) -> None:
    tries = []

    @app.job(retry=Retry.fixed(0))
    async def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("not yet")
        return len(tries)

    run = await flaky.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == 3


async def test_error_is_shown_while_the_run_is_retried(app: Windlass) -> None:
    @app.job(retry=Retry.fixed("1h"))
    async def flaky() -> None:
        raise OSError("not yet")

    run = await flaky.aenqueue()
    async with working(app):
        run = await reached(app, run.id, Status.SCHEDULED)
    assert run.status is Status.SCHEDULED
    assert run.record.waiting_for == "backoff"
    assert run.error is not None
    assert run.error.message == "not yet"
    assert (run.attempt, run.failures, run.failure) == (1, 1, None)


NOT_FOUND: list[Any] = [
    UNKNOWN, "", "abc", " ", "x" * 36, UNKNOWN[:-1], UNKNOWN + "0", "../../etc/passwd",
    "a\0" + UNKNOWN[2:], "\ud800", "١" * 32, None, 5, b"x", ["x"], 10**40,
]  # fmt: skip


async def test_ids_that_name_nothing_are_not_found(
    app: Windlass, subtests: pytest.Subtests
) -> None:
    @app.job
    async def idle() -> None: ...

    await idle.aenqueue()
    for given in NOT_FOUND:
        with subtests.test(ascii(given)):
            for call in (app.get, app.result, app.cancel, app.retry):
                with pytest.raises(RunNotFound) as sync:
                    call(given)
                assert sync.value.run == str(given)
            for acall in (app.aget, app.aresult, app.acancel, app.aretry):
                with pytest.raises(RunNotFound):
                    await acall(given)
            if given not in (UNKNOWN, None):
                with pytest.raises(RunNotFound):
                    app.list(before=given)


async def test_ids_are_read_as_people_write_them(app: Windlass) -> None:
    @app.job
    async def idle() -> None: ...

    run = await idle.aenqueue()
    for written in (run.id.upper(), run.id.replace("-", ""), f"  {run.id}\n"):
        assert app.get(written).id == run.id
        assert (await app.aget(written)).id == run.id


async def test_fatal_error_of_the_handler(app: Windlass) -> None:
    @app.job
    async def give_up() -> None:
        raise Fatal("no such customer")

    run = await give_up.aenqueue()
    async with working(app):
        with pytest.raises(RunFailed) as caught:
            await app.aresult(run.id, timeout=10)
    assert caught.value.failure is Failure.FATAL
    assert (await run.arefresh()).attempt == 1
