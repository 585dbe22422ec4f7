"""A run as an application holds it: all of its fields, its attempts, its history, as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fixtures.apps import working
from windlass import AttemptOutcome, Context, EventType, Retry, Run, Status, Windlass
from windlass.client import verbs
from windlass.domain.outcome import ErrorInfo
from windlass.domain.run import Attempt

KINDS: dict[str, Any] = {
    "id": str, "tenant": str, "job": str, "queue": str, "status": Status, "priority": int,
    "attempt": int, "failures": int, "crash_count": int, "key": (str, type(None)), "tags": tuple,
    "trace": str, "metadata": dict, "enqueued_by": (str, type(None)),
    "again_of": (str, type(None)),
    "asked_by": (str, type(None)),
    "input": dict, "result": object, "error": (ErrorInfo, type(None)), "failure": object,
    "reason": (str, type(None)), "cancel_requested": bool, "progress": (float, type(None)),
    "progress_message": (str, type(None)), "created_at": datetime, "scheduled_for": datetime,
    "due_at": (datetime, type(None)), "expires_at": (datetime, type(None)),
    "deadline_at": (datetime, type(None)),
    "started_at": (datetime, type(None)), "finished_at": (datetime, type(None)),
    "updated_at": datetime, "worker": (str, type(None)), "attempts": tuple,
}  # fmt: skip


def check_fields(run: Run) -> None:
    """Every field is there, and is of its kind; every time is in UTC."""
    for name, kind in KINDS.items():
        value = getattr(run, name)
        assert isinstance(value, kind), (name, value)
        if isinstance(value, datetime):
            assert value.tzinfo is UTC, name
    for attempt in run.attempts:
        assert isinstance(attempt, Attempt)
        assert attempt.started_at.utcoffset() == attempt.finished_at.utcoffset() == timedelta(0)


def check_json(run: Run) -> dict[str, Any]:
    """What is shown can be written and read as JSON without any help."""
    shown = dict(run.to_dict())
    assert json.loads(json.dumps(shown)) == shown
    for name in KINDS:
        if name != "cancel_requested":
            assert name in shown
    for name, value in shown.items():
        if name.endswith(("_at", "_for")) and value is not None:
            assert datetime.fromisoformat(value) == getattr(run, name)
            assert value.endswith("Z")
    return shown


async def test_life_of_a_run(app: Windlass) -> None:
    held: list[Run] = []

    @app.job(retry=Retry.fixed(0), priority=3)
    async def work(ctx: Context, name: str) -> dict[str, str]:
        held.append(await app.aget(ctx.run_id))
        await ctx.progress(0.25, "quarter")
        if ctx.attempt == 1:
            raise ValueError("boom")
        held.append(await app.aget(ctx.run_id))
        return {"hello": name}

    before = app.sources.now() - timedelta(seconds=1)
    job = work.using(key="k", tags=["t"], expires="1h", deadline="2h")
    run = await job.aenqueue("Ada")
    queued = await app.aget(run.id)
    async with working(app) as worker:
        await app.aresult(run.id, timeout=10)
        name = worker.id
    done = await app.aget(run.id)
    after = app.sources.now() + timedelta(seconds=1)
    first, second, last = held

    for seen in (run, queued, first, second, last, done):
        check_fields(seen)
        check_json(seen)
        assert (seen.id, seen.job, seen.key, seen.tags, seen.priority) == (
            run.id, "work", "k", ("t",), 3,
        )  # fmt: skip
        assert before < seen.created_at <= seen.updated_at < after
        assert seen.expires_at == seen.created_at + timedelta(hours=1)
        assert seen.deadline_at == seen.created_at + timedelta(hours=2)
        assert repr(seen) == f"<Run {run.id} work {seen.status.value}>"

    assert (queued.status, queued.attempt, queued.worker) == ("queued", 0, None)
    assert (first.status, first.attempt, first.failures) == ("running", 1, 0)
    assert (first.worker, first.progress, first.error) == (name, None, None)
    assert first.started_at is not None
    assert first.finished_at is None
    assert (second.attempt, second.failures) == (2, 1)
    assert second.error is not None
    assert second.error.message == "boom"  # the latest, while it is tried again
    assert (last.progress, last.progress_message) == (0.25, "quarter")

    assert done.status == "succeeded"
    assert isinstance(done.status, Status)
    assert (done.attempt, done.failures, done.crash_count) == (2, 1, 0)
    assert (done.result, done.error, done.failure) == ({"hello": "Ada"}, None, None)
    assert (done.worker, done.due_at) == (name, None)
    assert done.started_at is not None
    assert done.finished_at is not None
    assert done.created_at <= done.started_at <= done.finished_at

    failed, succeeded = done.attempts
    assert [failed.attempt, succeeded.attempt] == [1, 2]
    assert failed.outcome is AttemptOutcome.FAILED
    assert succeeded.outcome is AttemptOutcome.SUCCEEDED
    assert failed.token < succeeded.token
    assert failed.worker == succeeded.worker == name
    assert failed.finished_at <= succeeded.started_at
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("ValueError", "boom")
    assert 'raise ValueError("boom")' in failed.error.traceback
    assert failed.error.fingerprint
    assert succeeded.error is None

    shown = check_json(done)
    assert shown["status"] == "succeeded"
    assert shown["input"] == {"name": "Ada"}
    assert [a["outcome"] for a in shown["attempts"]] == ["failed", "succeeded"]
    assert shown["attempts"][0]["error"]["type"] == "ValueError"


async def test_history_of_a_run(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job(retry=Retry.fixed("10ms"))
    async def work(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("boom")

    run = await work.using(delay="10ms").aenqueue()
    async with working(app):
        await app.aresult(run.id, timeout=10)
    events = await run.aevents()

    assert [event.type for event in events] == [
        EventType.ENQUEUED, EventType.QUEUED, EventType.STARTED, EventType.RETRYING,
        EventType.QUEUED, EventType.STARTED, EventType.SUCCEEDED,
    ]  # fmt: skip
    assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6, 7]
    assert [event.attempt for event in events] == [0, 0, 1, 1, 1, 2, 2]
    assert sorted(events, key=lambda event: event.at) == list(events)
    assert run.events() == events
    assert [event.seq for event in run.events(after=5)] == [6, 7]
    monkeypatch.setattr(verbs, "_EVENTS", 2)  # more than one page
    assert run.events() == await run.aevents() == events
    assert [event.seq for event in await run.aevents(after=6)] == [7]
    assert (await run.arefresh()).updated_at == events[-1].at


async def test_refresh_reads_again_in_place(app: Windlass) -> None:
    @app.job
    async def work() -> int:
        return 1

    run, other = await work.aenqueue(), await work.aenqueue()
    assert run.refresh() is run
    assert await run.arefresh() is run
    async with working(app):
        await app.aresult(run.id, timeout=10)
        assert run.status is Status.QUEUED  # what was last read
        assert run.refresh().status is Status.SUCCEEDED
        assert await other.await_end(timeout=10) is other
        assert other.status == "succeeded"
