"""Enqueueing: both faces, every option, and what comes back."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.fixtures.apps import opened, working
from windlass import (
    BadOption,
    BadPayload,
    Context,
    Failure,
    KeyConflict,
    KeyTaken,
    PayloadTooLarge,
    Run,
    RunFailed,
    RunNotFound,
    Status,
    Windlass,
)
from windlass.domain.run import Options

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture
def greet(app: Windlass) -> Any:
    """A job with a default."""

    @app.job(queue="mail", priority=1)
    async def greet(name: str, times: int = 1) -> str:
        return " ".join([name] * times)

    return greet


def now(app: Windlass) -> datetime:
    return app.sources.now()


def test_sync_face(app: Windlass, greet: Any) -> None:
    run = greet.enqueue("Ada", times=2)

    assert isinstance(run, Run)
    assert UUID7.fullmatch(run.id)
    assert run.status is Status.QUEUED
    assert run.input == {"name": "Ada", "times": 2}
    assert (run.job, run.queue, run.priority, run.tenant) == ("greet", "mail", 1, "default")
    assert app.get(run.id).input == run.input


async def test_async_face(app: Windlass, greet: Any) -> None:
    run = await greet.aenqueue("Ada", times=2)

    assert isinstance(run, Run)
    assert UUID7.fullmatch(run.id)
    assert run.status is Status.QUEUED
    assert (await app.aget(run.id)).input == {"name": "Ada", "times": 2}


async def test_sync_face_works_inside_a_running_loop(app: Windlass, greet: Any) -> None:
    run = greet.enqueue("Ada")
    assert app.get(run.id).status == "queued"
    assert (await app.aget(run.id)).id == run.id
    assert [found.id for found in app.list()] == [run.id]


async def test_what_a_fresh_handle_shows_is_what_is_stored(app: Windlass, greet: Any) -> None:
    at = now(app) + timedelta(hours=1)
    job = greet.using(at=at, key="k", tags=["b", "a"], expires="2h", priority=-4, timeout="3s",
                      deadline="3h")  # fmt: skip
    fresh = await job.aenqueue("Ada")
    stored = await app.aget(fresh.id)
    # Tags are a set to the stores, a list to the caller.
    assert set(stored.tags) == set(fresh.tags) == {"a", "b"}
    for name in ("id", "tenant", "job", "queue", "status", "priority", "attempt", "failures",
                 "crash_count", "key", "input", "result", "error", "failure", "reason",
                 "cancel_requested", "created_at", "scheduled_for", "due_at", "expires_at",
                 "deadline_at", "started_at", "finished_at", "worker", "attempts",
                 "progress"):  # fmt: skip
        assert getattr(fresh, name) == getattr(stored, name), name


def test_defaults_are_not_stored(app: Windlass, greet: Any) -> None:
    assert app.get(greet.enqueue("Ada").id).input == {"name": "Ada"}


def test_ids_rise(app: Windlass, greet: Any) -> None:
    ids = [greet.enqueue("Ada").id for _ in range(20)]
    assert ids == sorted(set(ids))
    assert [run.id for run in app.list()] == ids[::-1]


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", ["10m", 600, 600.0, timedelta(minutes=10)], ids=str)
def test_delay(app: Windlass, greet: Any, delay: Any) -> None:
    run = greet.using(delay=delay).enqueue("Ada")
    found = app.get(run.id)
    for shown in (run, found):
        assert shown.status is Status.SCHEDULED
        assert shown.due_at == shown.scheduled_for == shown.created_at + timedelta(minutes=10)
    assert found.record.waiting_for == "delay"


def test_no_delay_is_queued_at_once(app: Windlass, greet: Any) -> None:
    run = greet.using(delay=0).enqueue("Ada")
    assert run.status is Status.QUEUED
    assert app.get(run.id).status is Status.QUEUED


def test_at_in_any_zone(app: Windlass, greet: Any) -> None:
    zone = timezone(timedelta(hours=-7))
    at = (now(app) + timedelta(days=3)).astimezone(zone)
    run = greet.using(at=at).enqueue("Ada")
    assert run.status is Status.SCHEDULED
    assert app.get(run.id).scheduled_for == run.scheduled_for == at
    assert run.scheduled_for.tzinfo is UTC


async def test_at_in_the_past_runs_now(app: Windlass, greet: Any) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    run = greet.using(at=past).enqueue("Ada")
    assert run.status is Status.QUEUED
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "Ada"


def test_at_the_ends_of_time(app: Windlass, greet: Any) -> None:
    first = greet.using(at=datetime.min.replace(tzinfo=UTC)).enqueue("Ada")
    last = greet.using(at=datetime(9999, 12, 30, 23, 59, 59, tzinfo=UTC)).enqueue("Ada")
    assert app.get(first.id).status is first.status is Status.QUEUED
    assert app.get(last.id).status is last.status is Status.SCHEDULED


def test_priority_and_queue(app: Windlass, greet: Any) -> None:
    run = greet.using(priority=-32_768, queue="other").enqueue("Ada")
    found = app.get(run.id)
    assert (run.priority, run.queue) == (found.priority, found.queue) == (-32_768, "other")
    assert app.get(greet.using(priority=0).enqueue("Ada").id).priority == 0  # not the job's 1


def test_tags_are_kept_once_each(app: Windlass, greet: Any) -> None:
    run = greet.using(tags=iter(["vip", "eu", "vip"])).enqueue("Ada")
    assert run.tags == ("vip", "eu")
    assert sorted(app.get(run.id).tags) == ["eu", "vip"]
    assert [found.id for found in app.list(tag="eu")] == [run.id]


@pytest.mark.parametrize("option", ["expires", "deadline"])
async def test_ends_after_a_while_or_at_a_time(app: Windlass, greet: Any, option: str) -> None:
    soon, name = now(app) + timedelta(hours=1), f"{option}_at"
    run = greet.using(**{option: soon}).enqueue("Ada")
    assert (getattr(run, name), getattr(app.get(run.id), name)) == (soon, soon)
    run = greet.using(**{option: "1h"}).enqueue("Ada")
    found = app.get(run.id)
    assert getattr(found, name) == found.created_at + timedelta(hours=1)
    both = greet.using(**{option: "1h"}).using(**{option: soon}).enqueue("Ada")  # the last counts
    assert getattr(app.get(both.id), name) == soon


async def test_what_expired_never_starts(app: Windlass, greet: Any) -> None:
    late = greet.using(expires=now(app) - timedelta(seconds=1)).enqueue("late")
    fine = greet.enqueue("fine")
    async with working(app):
        with pytest.raises(RunFailed) as caught:
            await app.aresult(late.id, timeout=10)
        assert await app.aresult(fine.id, timeout=10) == "fine"
    assert caught.value.failure is Failure.EXPIRED
    found = await app.aget(late.id)
    assert (found.attempt, found.failure) == (0, "expired")


def test_max_attempts_and_timeout_of_one_run(app: Windlass, greet: Any) -> None:
    run = greet.using(max_attempts=2).using(timeout="9s").enqueue("Ada")
    options = app.get(run.id).record.options
    assert options is not None
    assert (options.max_attempts, options.timeout) == (2, 9.0)


def test_options_merge_and_the_last_wins(app: Windlass, greet: Any) -> None:
    base = greet.using(priority=3, tags=["a"], delay="1h", expires="2h", max_attempts=2)
    changed = base.using(priority=4, delay="2h", expires=now(app) + timedelta(hours=9))
    run = app.get(changed.enqueue("Ada").id)
    assert (run.priority, run.tags) == (4, ("a",))
    assert run.due_at == run.created_at + timedelta(hours=2)
    assert run.expires_at is not None
    assert run.expires_at > run.created_at + timedelta(hours=8)
    # The job that options were taken from is as it was.
    assert app.get(base.enqueue("Ada").id).priority == 3
    assert app.get(greet.enqueue("Ada").id).priority == 1


def test_options_that_contradict_each_other_are_refused(app: Windlass, greet: Any) -> None:
    tomorrow = now(app) + timedelta(days=1)
    for wrong in ({"delay": "1s", "at": tomorrow}, {"key_ttl": "1h"}):
        with pytest.raises(BadOption):
            greet.using(**wrong)
    with pytest.raises(BadOption):
        greet.using(delay="1s").using(at=tomorrow)
    assert greet.using(key="k").using(key_ttl="1h").enqueue("Ada").key == "k"


async def test_all_options_at_once(app: Windlass, greet: Any) -> None:
    job = greet.using(
        delay="50ms", priority=9, key="k", key_ttl="1h", queue="other", tags=["t"], expires="1h",
        deadline="2h", max_attempts=1, timeout="10s",
    )  # fmt: skip
    run = await job.aenqueue("Ada", 2)
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "Ada Ada"
    found = await app.aget(run.id)
    assert (found.priority, found.key, found.queue, found.tags) == (9, "k", "other", ("t",))


# -- dedupe -------------------------------------------------------------------------------------


def test_same_key_and_input_give_the_same_run(app: Windlass, greet: Any) -> None:
    first = greet.using(key="welcome-7").enqueue("Ada", times=2)
    again = greet.using(key="welcome-7", delay="1h").enqueue(times=2, name="Ada")
    assert again.id == first.id
    assert again.status is Status.QUEUED  # that of the run which is there
    assert again.input == first.input
    assert len(app.list()) == 1


async def test_same_key_shows_where_the_run_stands(app: Windlass, greet: Any) -> None:
    job = greet.using(key="k")
    first = await job.aenqueue("Ada")
    async with working(app):
        await app.aresult(first.id, timeout=10)
    again = await job.aenqueue("Ada")
    assert (again.id, again.status, again.result) == (first.id, Status.SUCCEEDED, "Ada")
    assert [attempt.attempt for attempt in again.attempts] == [1]


def test_same_key_with_other_input_is_a_conflict(app: Windlass, greet: Any) -> None:
    first = greet.using(key="k").enqueue("Ada")
    with pytest.raises(KeyConflict) as caught:
        greet.using(key="k").enqueue("Bob")
    assert (caught.value.job, caught.value.key, caught.value.run) == ("greet", "k", first.id)
    assert str(caught.value) == (
        f"Key 'k' of job 'greet' belongs to run {first.id} with other input: "
        "use another key, or the same input."
    )
    assert len(app.list()) == 1


async def test_the_key_of_a_live_run_is_free_when_it_has_ended(app: Windlass, greet: Any) -> None:
    job = greet.using(key="k", unique="live")
    first = await job.aenqueue("Ada")
    assert (await job.aenqueue("Ada")).id == first.id
    first.cancel()
    second = await job.aenqueue("Ada")
    assert second.id != first.id

    with pytest.raises(KeyTaken) as caught:
        first.retry()
    assert str(caught.value) == (
        f"Key 'k' of job 'greet' belongs to run {second.id}, which has not ended: "
        "wait for that run, or cancel it first."
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [({"unique": "live"}, "it needs a key"), ({"unique": "ever", "key": "k"}, "'ever' is neither")],
)
def test_unique_is_checked(greet: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadOption, match=why):
        greet.using(**options)


async def test_what_is_noted_is_read_and_given_to_the_handler(app: Windlass) -> None:
    seen: list[Any] = []

    @app.job(max_attempts=2)
    async def work(ctx: Context) -> None:
        seen.append((ctx.metadata, ctx.trace, ctx.tags, ctx.key, ctx.priority, ctx.scheduled_for))
        seen.append((ctx.max_attempts, ctx.is_last_attempt, ctx.enqueued_by, ctx.schedule))

    noted = {"who": "Ada", "list": [1, None]}
    job = work.using(metadata=noted, trace="t" * 32, tags=["a"], key="k", priority=4)
    run = await job.aenqueue()
    assert (run.metadata, run.trace, run.enqueued_by) == (noted, "t" * 32, None)
    async with working(app):
        await app.aresult(run.id, timeout=10)

    found = await app.aget(run.id)
    assert (found.metadata, found.trace) == (noted, "t" * 32)
    assert seen == [
        (noted, "t" * 32, ("a",), "k", 4, found.scheduled_for), (2, False, None, None)
    ]  # fmt: skip


async def test_a_plain_run_has_its_own_trace_and_no_metadata(app: Windlass) -> None:
    seen: list[Any] = []

    @app.job(max_attempts=1)
    async def work(ctx: Context) -> None:
        seen.append((dict(ctx.metadata), ctx.trace, ctx.tags, ctx.key, ctx.priority))
        seen.append((ctx.scheduled_for, ctx.max_attempts, ctx.is_last_attempt))

    run = await work.aenqueue()
    assert (run.metadata, run.trace) == ({}, run.id.replace("-", ""))
    async with working(app):
        await app.aresult(run.id, timeout=10)
    assert seen == [({}, run.trace, (), None, 0), (run.created_at, 1, True)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"metadata": [1]}, BadOption),
        ({"metadata": {1: 2}}, BadOption),
        ({"metadata": {"a": object()}}, BadPayload),
        ({"metadata": {"a": "x" * 16_384}}, PayloadTooLarge),
        ({"trace": ""}, BadOption),
        ({"trace": 5}, BadOption),
        ({"trace": "x" * 201}, BadOption),
    ],
)
def test_what_is_noted_is_checked(
    greet: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        greet.using(**options)


def test_unique_goes_with_other_options(greet: Any) -> None:
    job = greet.using(key="k", unique="live", max_attempts=2).using(timeout="1m")
    assert job.enqueue("Ada").record.options == Options(max_attempts=2, timeout=60, unique="live")


def test_keys_belong_to_their_job(app: Windlass, greet: Any) -> None:
    @app.job
    async def other(name: str) -> None: ...

    runs = {greet.using(key="k").enqueue("Ada").id, other.using(key="k").enqueue("Bob").id}
    assert len(runs) == 2


async def test_key_is_free_again_after_its_time(app: Windlass, greet: Any) -> None:
    job = greet.using(key="k", key_ttl="20ms")
    first = await job.aenqueue("Ada")
    again = first
    async with asyncio.timeout(10):
        while again.id == first.id:
            again = await job.aenqueue("Ada")
    other = await greet.using(key="k2", key_ttl="1h").aenqueue("Ada")
    assert (await greet.using(key="k2").aenqueue("Ada")).id == other.id


async def test_one_key_from_many_coroutines_is_one_run(app: Windlass, greet: Any) -> None:
    job = greet.using(key="k")
    runs = await asyncio.gather(*(job.aenqueue("Ada") for _ in range(50)))
    assert len({run.id for run in runs}) == 1
    assert len(await app.alist()) == 1


# -- tenants ------------------------------------------------------------------------------------


async def test_tenants_do_not_see_each_other(app: Windlass, url: str, greet: Any) -> None:
    run = await greet.using(key="k").aenqueue("Ada")
    async with opened(url, tenant="acme") as acme:
        acme.job(name="greet")(greet.spec.handler)
        other = await acme.jobs["greet"].using(key="k").aenqueue("Bob")
        assert other.tenant == "acme"
        assert [found.id for found in await acme.alist()] == [other.id]
        for call in (acme.aget, acme.acancel):
            with pytest.raises(RunNotFound):
                await call(run.id)
    assert [found.id for found in await app.alist()] == [run.id]


async def test_runs_of_a_batch_are_a_sequence(app: Windlass) -> None:
    @app.job
    async def work(n: int) -> None: ...

    first = await work.using(key="a").aenqueue(0)
    requests = [work.using(key="a").request(0), *(work.request(n) for n in range(1, 5))]
    runs = await app.aenqueue_many(requests)

    assert len(runs) == 5
    assert [run.input["n"] for run in runs] == [0, 1, 2, 3, 4]
    assert runs[0].id == first.id
    assert (runs[-1].input, [run.input["n"] for run in runs[1:3]]) == ({"n": 4}, [1, 2])
    assert runs[2] is runs[2]  # refreshing it is seen by whoever looks again
    assert repr(runs).count("<Run ") == 5
    with pytest.raises(IndexError):
        runs[5]
    with pytest.raises(IndexError):
        runs[-6]
