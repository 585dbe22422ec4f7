"""One attempt by hand, and inline mode: real contexts, JSON both ways, errors that surface."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from windlass import (
    BadArguments,
    BadPayload,
    Cancel,
    Context,
    Fail,
    RunFailed,
    Snooze,
    SyncContext,
    UsageError,
    Windlass,
)
from windlass.testing import adrain, arun_job, drain, enqueued, given, inline, run_job

SLOT = datetime(2030, 1, 1, tzinfo=UTC)


def test_arguments_and_result_go_through_json(app: Windlass) -> None:
    seen: list[Any] = []

    @app.job
    def job(ctx: SyncContext, day: date, numbers: list[int]) -> dict[str, Any]:
        seen.append((day, numbers))
        ctx.progress(0.5)
        return {"day": day, "pair": (1, 2)}

    given_numbers = [1, 2]
    assert run_job(job, date(2030, 1, 1), given_numbers) == {"day": "2030-01-01", "pair": [1, 2]}
    assert seen == [(date(2030, 1, 1), [1, 2])]
    assert seen[0][1] is not given_numbers
    with pytest.raises(BadArguments):
        run_job(job, "no day", [])
    with pytest.raises(BadArguments):
        run_job(job)


def test_context_is_as_given(app: Windlass) -> None:
    @app.job
    async def job(ctx: Context) -> list[Any]:
        return [ctx.attempt, ctx.failures, ctx.slot, ctx.canceled, ctx.stopping, ctx.job]

    assert run_job(job) == [1, 0, None, False, False, "job"]
    assert run_job(job, ctx=given(attempt=3, slot=SLOT)) == [
        3, 2, "2030-01-01T00:00:00Z", False, False, "job",
    ]  # fmt: skip
    assert run_job(job, ctx=given(canceled=True, stopping=True))[3:5] == [True, True]
    with pytest.raises(UsageError):
        given(attempt=0)


def test_what_it_raises_is_raised(app: Windlass) -> None:
    class Odd(Exception):
        pass

    @app.job
    def sync_job() -> None:
        raise Odd("sync")

    @app.job
    async def async_job() -> None:
        raise Odd("async")

    for job in (sync_job, async_job):
        with pytest.raises(Odd, match=job.name.removesuffix("_job")):
            run_job(job)
    assert drain(app, with_scheduled=True).attempts == 0  # it is not tried again
    assert {run.status for run in app.list()} == {"canceled"}


def test_words_of_a_handler_are_returned(app: Windlass) -> None:
    @app.job
    def job(how: str) -> object:
        return {"snooze": Snooze("10m"), "cancel": Cancel("why"), "fail": Fail("no")}.get(how)

    assert run_job(job, "snooze") == Snooze("10m")
    assert run_job(job, "cancel") == Cancel("why")
    with pytest.raises(RunFailed, match="no"):
        run_job(job, "fail")
    assert run_job(job, "nothing") is None


def test_result_that_json_cannot_hold_fails(app: Windlass) -> None:
    @app.job
    def job() -> object:
        return object()

    with pytest.raises(RunFailed, match=BadPayload.__name__):
        run_job(job)


def test_options_of_the_run_do_not_keep_it_from_running(app: Windlass) -> None:
    @app.job
    def job() -> str:
        return "ran"

    odd = job.using(delay="1h", key="k", expires="1s", deadline="1s", queue="side")
    assert (run_job(odd), run_job(odd)) == ("ran", "ran")


def test_application_that_is_not_isolated_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Windlass()

    @app.job
    def job() -> str:
        inner.enqueue()
        return "ran"

    @app.job
    def inner() -> None: ...

    assert run_job(job) == "ran"
    assert list(tmp_path.iterdir()) == []


async def test_twin_runs_on_the_loop_of_the_test(app: Windlass) -> None:
    @app.job
    async def job(ctx: Context, n: int) -> int:
        await ctx.progress(1)
        assert asyncio.get_running_loop() is loop
        return n + 1

    @app.job
    def sync_job() -> str:
        return "ran"

    loop = asyncio.get_running_loop()
    assert await arun_job(job, 1) == 2
    assert await arun_job(sync_job) == "ran"
    assert run_job(sync_job) == "ran"  # blocking, but it works


# -- inline mode ----------------------------------------------------------------------------------


def test_inline_runs_what_is_enqueued_at_once(app: Windlass) -> None:
    done: list[Any] = []

    @app.job
    def outer(day: date) -> str:
        done.append(day)
        assert inner.enqueue(n=1).status == "succeeded"
        return "ran"

    @app.job
    async def inner(ctx: Context, n: int) -> int:
        done.append(n)
        await ctx.progress(1)
        return n

    with inline(app):
        run = outer.enqueue(date(2030, 1, 1))
        assert (run.status, run.result) == ("succeeded", "ran")
        assert [r.result for r in app.enqueue_many([inner.request(n) for n in (2, 3)])] == [2, 3]
        assert app.enqueue("inner", {"n": 4}).result == 4
    assert done == [date(2030, 1, 1), 1, 2, 3, 4]
    assert inner.enqueue(n=5).status == "queued"


def test_inline_errors_surface_where_it_was_enqueued(app: Windlass) -> None:
    @app.job
    def fails() -> None:
        raise LookupError("here")

    with inline(app), pytest.raises(LookupError, match="here"):
        fails.enqueue()
    [run] = enqueued(app)
    assert (run.status, run.failures) == ("scheduled", 1)


def test_inline_leaves_what_is_for_later(app: Windlass) -> None:
    @app.job
    def job() -> None: ...

    with inline(app):
        assert job.using(delay="1h").enqueue().status == "scheduled"
        first = job.using(key="k").enqueue()
        again = job.using(key="k").enqueue()
    assert (first.id, first.attempt, again.attempt) == (again.id, 1, 1)


def test_inline_leaves_what_is_in_an_open_transaction(app: Windlass) -> None:
    @app.job
    def note(n: int) -> int:
        return n

    with inline(app), app.transaction() as tx:
        run = note.using(connection=tx).enqueue(n=1)
    assert app.get(run.id).status == "queued"
    assert app.get(run.id).created_at == app.sources.now() == run.created_at
    drain(app)
    assert app.get(run.id).result == 1


async def test_inline_in_async_code(app: Windlass) -> None:
    @app.job
    async def outer() -> str:
        await asyncio.to_thread(inner.enqueue)
        return (await inner.aenqueue()).status

    @app.job
    def inner() -> None: ...

    with inline(app):
        assert (await outer.aenqueue()).result == "succeeded"
        assert outer.enqueue().result == "succeeded"  # blocking, on a loop of its own
    assert (await adrain(app)).attempts == 0


def test_inline_needs_an_isolated_application() -> None:
    with pytest.raises(UsageError, match="isolated"), inline(Windlass("sqlite:///never-made.db")):
        pass
