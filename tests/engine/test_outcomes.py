"""What becomes of a run, by what its handler returned or raised."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, reached, working
from windlass import (
    AttemptOutcome,
    Cancel,
    Context,
    EventType,
    Fail,
    Failure,
    Fatal,
    Retry,
    RetryAfter,
    Run,
    RunFailed,
    Snooze,
    Status,
    SyncContext,
    Windlass,
)

KINDS = ["async", "sync"]


def define(app: Windlass, kind: str, body: Callable[[Any], Any], **options: Any) -> Any:
    """A job whose handler does the same on the loop or in a thread."""

    async def on_loop(ctx: Context) -> Any:
        return body(ctx)

    def in_thread(ctx: SyncContext) -> Any:
        return body(ctx)

    handler: Any = on_loop if kind == "async" else in_thread
    return app.job(name="work", **options)(handler)


async def ended(app: Windlass, job: Any) -> Run:
    """Run a job to its end."""
    run: Run = await job.aenqueue()
    async with working(app):
        return await run.await_end(timeout=10)


def outcomes(run: Run) -> list[str]:
    return [attempt.outcome.value for attempt in run.attempts]


@pytest.mark.parametrize("kind", KINDS)
async def test_retries_until_it_succeeds(app: Windlass, kind: str) -> None:
    seen: list[tuple[int, int, int]] = []

    def body(ctx: Any) -> str:
        seen.append((ctx.attempt, ctx.failures, ctx.token))
        if ctx.attempt < 4:
            raise ValueError(f"boom {ctx.attempt}")
        return "done"

    run = await ended(app, define(app, kind, body, retry=Retry.fixed("10ms")))
    assert (run.status, run.result, run.attempt, run.failures) == ("succeeded", "done", 4, 3)
    assert [(attempt, failures) for attempt, failures, _ in seen] == [
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 3),
    ]
    tokens = [token for *_, token in seen]
    assert tokens == sorted(set(tokens))
    assert outcomes(run) == ["failed"] * 3 + ["succeeded"]
    assert [a.error.message for a in run.attempts if a.error] == ["boom 1", "boom 2", "boom 3"]


@pytest.mark.parametrize("kind", KINDS)
async def test_max_attempts_failures_exhaust_it(app: Windlass, kind: str) -> None:
    def body(ctx: Any) -> None:
        raise ValueError(f"boom {ctx.attempt}")

    job = define(app, kind, body, retry=Retry.fixed(0), max_attempts=3)
    run = await ended(app, job)
    assert (run.status, run.failure) == ("failed", Failure.EXHAUSTED)
    assert (run.attempt, run.failures) == (3, 3)
    assert run.error is not None
    assert run.error.message == "boom 3"
    assert outcomes(run) == ["failed"] * 3
    assert [event.type.value for event in run.events()] == [
        "run.enqueued", "run.started", "run.retrying", "run.started", "run.retrying",
        "run.started", "run.failed",
    ]  # fmt: skip


async def test_one_runs_own_max_attempts_wins(app: Windlass) -> None:
    def body(ctx: Any) -> None:
        raise ValueError("boom")

    job = define(app, "async", body, retry=Retry.fixed(0), max_attempts=5)
    run = await ended(app, job.using(max_attempts=2))
    assert (run.failure, run.failures) == ("exhausted", 2)


async def test_backoff_grows_and_waits(app: Windlass) -> None:
    def body(ctx: Any) -> None:
        raise ValueError("boom")

    policy = Retry.exponential(base="40ms", factor=2, jitter=0)
    run = await ended(app, define(app, "async", body, retry=policy, max_attempts=4))
    delays = [event.data["delay"] for event in run.events() if event.data and "delay" in event.data]
    assert delays == pytest.approx([0.04, 0.08, 0.16])
    pauses = [
        (later.started_at - earlier.finished_at).total_seconds()
        for earlier, later in zip(run.attempts, run.attempts[1:], strict=False)
    ]
    for pause, delay in zip(pauses, delays, strict=True):
        assert delay <= pause + 0.0001


async def test_jitter_takes_off_no_more_than_its_share(app: Windlass) -> None:
    def body(ctx: Any) -> None:
        raise ValueError("boom")

    policy = Retry.fixed("1h", jitter=0.5)
    job = define(app, "async", body, retry=policy)
    runs = await app.aenqueue_many(job.request() for _ in range(20))
    delays = []
    async with working(app):
        for run in runs:
            found = await reached(app, run.id, Status.SCHEDULED)
            event = (await found.aevents())[-1]
            assert event.data is not None
            delays.append(event.data["delay"])
    assert all(1800 <= delay <= 3600 for delay in delays)
    assert len(set(delays)) > 10


async def test_policy_may_never_retry(app: Windlass) -> None:
    def body(ctx: Any) -> None:
        raise ValueError("boom")

    run = await ended(app, define(app, "async", body, retry=Retry.never()))
    assert (run.failure, run.attempt) == ("exhausted", 1)


@pytest.mark.parametrize(
    ("policy", "error", "failure", "attempts"),
    [
        (Retry.fixed(0, fatal=KeyError), KeyError("x"), "fatal", 1),
        (Retry.fixed(0, fatal=LookupError), KeyError("x"), "fatal", 1),
        (Retry.fixed(0, fatal=KeyError), ValueError("x"), "exhausted", 2),
        (Retry.fixed(0, only=OSError), ConnectionError("x"), "exhausted", 2),
        (Retry.fixed(0, only=OSError), ValueError("x"), "fatal", 1),
        (Retry.fixed("1h", after={KeyError: 0}), KeyError("x"), "exhausted", 2),
        (Retry.fixed("1h", after={OSError: lambda error: 0}), OSError("x"), "exhausted", 2),
        (Retry.custom(lambda n, error: None), ValueError("x"), "exhausted", 1),
        (Retry.custom(lambda n, error: 0), ValueError("x"), "exhausted", 2),
        (Retry.custom(lambda n, error: 1 / 0, jitter=1.0), Fatal("x"), "fatal", 1),
    ],
)  # fmt: skip
async def test_rules_by_exception(
    app: Windlass, policy: Retry, error: Exception, failure: str, attempts: int
) -> None:
    def body(ctx: Any) -> None:
        raise error

    run = await ended(app, define(app, "async", body, retry=policy, max_attempts=2))
    assert (run.status, run.failure, run.attempt) == ("failed", failure, attempts)


async def test_rule_that_raises_anything_leaves_the_formula(app: Windlass) -> None:
    def rule(failures: int, error: BaseException) -> float:
        raise SystemExit("a rule is foreign code, too")

    def body(ctx: Any) -> None:
        raise ValueError("boom")

    job = define(app, "async", body, retry=Retry.custom(rule))
    run = await job.aenqueue()
    async with working(app):
        found = await reached(app, run.id, Status.SCHEDULED)
    assert found.error is not None
    assert found.error.message == "boom"


@pytest.mark.parametrize("kind", KINDS)
async def test_retry_after_chooses_the_delay_and_counts(app: Windlass, kind: str) -> None:
    def body(ctx: Any) -> str:
        if ctx.attempt == 1:
            raise RetryAfter("20ms", "busy")
        return "done"

    run = await ended(app, define(app, kind, body, retry=Retry.fixed("1h")))
    assert (run.status, run.attempt, run.failures) == ("succeeded", 2, 1)
    assert run.attempts[0].error is not None
    assert run.attempts[0].error.message == "busy"


async def test_retry_after_is_limited_by_max_attempts(app: Windlass) -> None:
    def body(ctx: Any) -> None:
        raise RetryAfter(0)

    run = await ended(app, define(app, "async", body, max_attempts=2))
    assert (run.failure, run.attempt, run.failures) == ("exhausted", 2, 2)


@pytest.mark.parametrize("kind", KINDS)
async def test_fatal_fails_at_once(app: Windlass, kind: str) -> None:
    def body(ctx: Any) -> None:
        raise Fatal("no such customer")

    run = await ended(app, define(app, kind, body, retry=Retry.fixed(0)))
    assert (run.status, run.failure, run.attempt, run.failures) == ("failed", "fatal", 1, 1)
    assert run.error is not None
    assert run.error.message == "no such customer"


@pytest.mark.parametrize("kind", KINDS)
async def test_snooze_counts_as_no_failure(app: Windlass, kind: str) -> None:
    def body(ctx: Any) -> Any:
        assert ctx.failures == 0
        return Snooze("20ms") if ctx.attempt < 3 else "awake"

    run = await ended(app, define(app, kind, body, max_attempts=1))
    assert (run.status, run.result, run.attempt, run.failures) == ("succeeded", "awake", 3, 0)
    assert outcomes(run) == ["snoozed", "snoozed", "succeeded"]
    assert all(attempt.error is None for attempt in run.attempts)
    snoozed = [event for event in run.events() if event.type is EventType.SNOOZED]
    assert [event.data for event in snoozed] == [{"delay": 0.02}] * 2


async def test_snoozed_run_is_scheduled(app: Windlass) -> None:
    job = define(app, "async", lambda ctx: Snooze("1h"))
    run = await job.aenqueue()
    async with working(app) as worker:
        found = await reached(app, run.id, Status.SCHEDULED)
        await worker.drained()  # what sleeps is not waited for
    assert found.record.waiting_for == "snooze"


@pytest.mark.parametrize("kind", KINDS)
async def test_fail_is_permanent_unless_it_says_so(app: Windlass, kind: str) -> None:
    def body(ctx: Any) -> Fail:
        return Fail("not yet", permanent=False) if ctx.attempt == 1 else Fail("never")

    run = await ended(app, define(app, kind, body, retry=Retry.fixed(0)))
    assert (run.status, run.failure, run.attempt, run.failures) == ("failed", "fatal", 2, 2)
    assert [a.error.message for a in run.attempts if a.error] == ["not yet", "never"]
    with pytest.raises(RunFailed, match="never"):
        await app.aresult(run.id)


@pytest.mark.parametrize("kind", KINDS)
async def test_cancel_ends_the_run_as_canceled(app: Windlass, kind: str) -> None:
    run = await ended(app, define(app, kind, lambda ctx: Cancel("customer left")))
    assert (run.status, run.failure, run.reason) == ("canceled", None, "customer left")
    assert (run.attempt, run.failures) == (1, 0)
    assert run.attempts[0].outcome is AttemptOutcome.CANCELED
    last = run.events()[-1]
    assert (last.type, last.data) == (EventType.CANCELED, {"reason": "customer left"})


async def test_cancel_without_a_reason(app: Windlass) -> None:
    run = await ended(app, define(app, "async", lambda ctx: Cancel()))
    assert (run.status, run.reason) == ("canceled", None)


async def test_many_retries_at_once_are_all_tried(app: Windlass) -> None:
    tries: list[str] = []

    def body(ctx: Any) -> None:
        tries.append(ctx.run_id)
        if ctx.attempt < 3:
            raise ValueError("boom")

    job = define(app, "async", body, retry=Retry.fixed("5ms"))
    runs = await app.aenqueue_many(job.request() for _ in range(100))
    async with working(app) as worker:
        await asyncio.wait_for(worker.drained(), 20)
    assert len(tries) == 300
    assert {run.refresh().status for run in runs} == {Status.SUCCEEDED}


async def test_sync_handler_that_should_end_ends_by_a_cancellation(app: Windlass) -> None:
    """As the docs say: by this it is canceled, while a value would be a success."""
    started = threading.Event()

    @app.job(max_attempts=1)
    def work(ctx: SyncContext) -> str:
        started.set()
        while not ctx.canceled:
            time.sleep(0.001)
        raise asyncio.CancelledError

    run = await work.aenqueue()
    async with working(app, cancel_grace=60):
        await asyncio.to_thread(started.wait, PATIENCE)
        await run.acancel("enough")
        await run.await_end(timeout=PATIENCE)
    assert (run.status, run.failure, run.reason) == ("canceled", None, "enough")
    assert [attempt.outcome for attempt in run.attempts] == ["canceled"]
