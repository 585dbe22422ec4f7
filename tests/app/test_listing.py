"""Listing runs: by what they are, page by page, newest first."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.fixtures.apps import holds, reached, within, working
from windlass import Failure, Fatal, Retry, Run, Status, Windlass


def ids(runs: Any) -> list[str]:
    return [run.id for run in runs]


@pytest.fixture
async def zoo(app: Windlass) -> Any:
    """A run in every status there can be, by name."""
    started, go = asyncio.Event(), asyncio.Event()

    @app.job(retry=Retry.fixed("1h"), queue="a")
    async def work(what: str) -> str:
        if what == "fatal":
            raise Fatal("never")
        if what in ("exhausted", "retrying"):
            raise ValueError(what)
        if what == "running":
            started.set()
            await go.wait()
        return what

    @app.job(queue="b")
    async def idle() -> None: ...

    runs: dict[str, Run] = {}
    for what in ("succeeded", "fatal", "retrying", "running"):
        runs[what] = await work.using(tags=["early"]).aenqueue(what)
    runs["exhausted"] = await work.using(max_attempts=1, tags=["vip"]).aenqueue("exhausted")
    runs["canceled"] = await idle.using(delay="1h").aenqueue()
    await runs["canceled"].acancel()
    async with working(app, queues=("a",)) as worker:
        await within(started)
        for what in ("succeeded", "fatal", "exhausted"):
            await runs[what].await_end(timeout=10)
        await reached(app, runs["retrying"].id, Status.SCHEDULED)
        runs["queued"] = await idle.aenqueue()
        runs["delayed"] = await idle.using(delay="1h", tags=["vip"]).aenqueue()
        await holds(worker, 1)
        yield runs
        go.set()


async def test_lists_by_every_filter(app: Windlass, zoo: Any, subtests: pytest.Subtests) -> None:
    made = sorted(zoo.values(), key=lambda run: run.id)
    middle = made[3].created_at
    expected: list[tuple[dict[str, Any], set[str]]] = [
        ({}, set(zoo)),
        ({"status": "succeeded"}, {"succeeded"}),
        ({"status": Status.FAILED}, {"fatal", "exhausted"}),
        ({"status": "canceled"}, {"canceled"}),
        ({"status": "running"}, {"running"}),
        ({"status": "queued"}, {"queued"}),
        ({"status": "scheduled"}, {"retrying", "delayed"}),
        ({"status": "waiting"}, set()),
        ({"status": "paused"}, set()),
        ({"failure": "fatal"}, {"fatal"}),
        ({"failure": Failure.EXHAUSTED}, {"exhausted"}),
        ({"failure": "crashed"}, set()),
        ({"dead": True}, {"fatal", "exhausted"}),
        ({"dead": False}, set(zoo)),
        ({"job": "idle"}, {"queued", "delayed", "canceled"}),
        ({"job": "nobody"}, set()),
        ({"queue": "a"}, {"succeeded", "fatal", "retrying", "running", "exhausted"}),
        ({"queue": "b", "status": "queued"}, {"queued"}),
        ({"job": "work", "status": "scheduled"}, {"retrying"}),
        ({"job": "work", "status": "succeeded"}, {"succeeded"}),
        ({"job": "idle", "status": "failed"}, set()),
        ({"tag": "vip"}, {"exhausted", "delayed"}),
        ({"tag": "vip", "status": "failed"}, {"exhausted"}),
        ({"tag": "vip", "status": "scheduled"}, {"delayed"}),
        ({"tag": "early", "status": "succeeded"}, {"succeeded"}),
        ({"tag": "nobody"}, set()),
        ({"status": None, "job": None}, set(zoo)),
    ]
    for query, names in expected:
        with subtests.test(str(query)):
            found = [run.id for run in app.list(**query)]
            assert set(found) == {zoo[name].id for name in names}
            assert found == sorted(found, reverse=True)
            assert ids(await app.alist(**query)) == found
            for run in app.list(**query):
                assert run.status is (await app.aget(run.id)).status
    with subtests.test("time"):
        later = {run.id for run in made if run.created_at >= middle}
        earlier = {run.id for run in made if run.created_at < middle}
        assert set(ids(app.list(created_from=middle))) == later
        assert set(ids(app.list(created_to=middle))) == earlier
        span = {"created_from": middle, "created_to": middle + timedelta(microseconds=1)}
        assert set(ids(app.list(**span))) == {r.id for r in made if r.created_at == middle}


async def test_pages_by_every_order_of_reading(
    app: Windlass, zoo: Any, subtests: pytest.Subtests
) -> None:
    queries: list[dict[str, Any]] = [
        {}, {"status": "failed"}, {"status": "scheduled"}, {"job": "work"}, {"tag": "vip"},
        {"queue": "b"}, {"dead": True},
    ]  # fmt: skip
    for query in queries:
        with subtests.test(str(query)):
            whole = ids(app.list(**query))
            pages: list[str] = []
            before: dict[str, Any] = {}
            while page := ids(await app.alist(limit=2, **query, **before)):
                assert len(page) <= 2
                pages += page
                before = {"before": page[-1]}
            assert pages == whole


def test_page_has_fifty_unless_asked(app: Windlass) -> None:
    @app.job
    async def idle(n: int) -> None: ...

    made = app.enqueue_many(idle.request(n) for n in range(60))
    newest = ids(made)[::-1]
    assert ids(app.list()) == newest[:50]
    assert ids(app.list(limit=60)) == newest
    assert ids(app.list(limit=1)) == newest[:1]
    assert ids(app.list(before=newest[49].upper())) == newest[50:]
    assert app.list(before=newest[-1]) == []


async def test_dead_letters_can_be_discarded_or_retried(app: Windlass, zoo: Any) -> None:
    fatal, exhausted = zoo["fatal"], zoo["exhausted"]
    assert await app.adiscard(fatal.id, zoo["queued"].id) == 1
    assert ids(app.list(dead=True)) == [exhausted.id]
    assert app.discard(fatal.id) == 0
    assert ids(app.list(status="failed")) == [exhausted.id, fatal.id]  # still failed
    await exhausted.aretry(max_attempts=2)  # it fails again, and waits: not dead either way
    assert app.list(dead=True) == []
