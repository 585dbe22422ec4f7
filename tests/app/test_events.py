"""`app.events()`: what happens, in order and without gaps, for any number of listeners."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event

from tests.fixtures.apps import PATIENCE, opened, working
from windlass import (
    BadOption,
    Context,
    Event,
    EventType,
    ListenerTooSlow,
    Retry,
    RunNotFound,
    Windlass,
)
from windlass.client.event_stream import AsyncEvents
from windlass.store.interface import Call


def names(events: list[Event]) -> list[str]:
    """Their types."""
    return [event.type.value for event in events]


def define(app: Windlass) -> None:
    """A job that fails once, one that does not, and one that sleeps."""

    @app.job(max_attempts=2, retry=Retry.fixed("20ms"))
    async def stumble(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("no luck")

    @app.job
    async def walk(steps: int = 1) -> int:
        return steps

    @app.job(max_attempts=1)
    async def fall() -> None:
        raise ValueError("down")


async def read(app: Windlass, upto: str, **asked: Any) -> list[Event]:
    """Events until one of this type has come."""
    found = []
    async with asyncio.timeout(PATIENCE):
        async for event in app.aevents(**asked):
            found.append(event)
            if event.type == upto:
                break
    return found


async def test_an_event_says_what_its_reader_needs_to_know(app: Windlass) -> None:
    define(app)
    async with app.aevents(job="stumble") as events, working(app) as worker:
        await app.aenqueue("walk")
        run = await app.aenqueue("stumble")
        found: list[Event] = []
        async with asyncio.timeout(PATIENCE):
            async for event in events:
                found.append(event)
                if event.type is EventType.SUCCEEDED:
                    break

    assert names(found) == [
        "run.enqueued", "run.started", "run.retrying", "run.queued", "run.started", "run.succeeded",
    ]  # fmt: skip
    assert [event.seq for event in found] == [1, 2, 3, 4, 5, 6]
    assert {(e.run, e.job, e.queue, e.tenant) for e in found} == {
        (run.id, "stumble", "default", "default")
    }
    retrying, succeeded = found[2], found[5]
    assert retrying.error is not None
    assert (retrying.error.type, retrying.error.message) == ("ValueError", "no luck")
    assert retrying.error.traceback == ""
    assert retrying.next_at == retrying.time + timedelta(seconds=retrying.data["delay"])
    attempts = (await app.aget(run.id)).attempts
    for event, attempt in zip((retrying, succeeded), attempts, strict=True):
        assert attempt.finished_at is not None
        taken = attempt.finished_at - attempt.started_at
        assert event.duration == taken.total_seconds()
        assert event.worker == worker.id
    assert succeeded.error is None
    assert [event.worker for event in found[:2]] == [None, worker.id]


async def test_the_sdk_of_cloudevents_reads_ours(app: Windlass) -> None:
    define(app)
    async with working(app):
        run = await app.aenqueue("fall")
        found = await read(app, "run.failed", since="start")

    for event in found:
        text = json.dumps(event.to_cloudevent()).encode()
        message = HTTPMessage({"content-type": "application/cloudevents+json"}, text)
        told = from_structured_event(message)
        assert told.get_id() == event.id
        assert told.get_type() == event.type
        assert told.get_source() == "/windlass/default"
        assert told.get_subject() == run.id
        assert told.get_time() == event.time
        assert told.get_extension("job") == "fall"
        assert told.get_extension("attempt") == event.attempt
        assert told.get_extension("seq") == event.seq
    data = found[-1].to_cloudevent()["data"]
    assert data["error"]["message"] == "down"
    assert data["failure"] == "exhausted"
    assert data["duration"] == found[-1].duration


async def test_since_goes_on_from_an_event_a_time_or_the_start(app: Windlass) -> None:
    define(app)
    before = await app.aenqueue("walk")
    middle = app.sources.now()
    await asyncio.to_thread(app.migrate)
    after = await app.aenqueue("fall")

    def subjects(**asked: Any) -> list[str]:
        return [event.subject for event in _settled(app, asked)]

    assert subjects(since="start") == [before.id, after.id]
    assert subjects(since=middle) == [after.id]
    (first, _) = _settled(app, {"since": "start"})
    assert subjects(since=first.id) == [after.id]
    assert subjects(since="start", run=before) == subjects(since="start", job="walk") == [before.id]
    assert subjects(since="start", types="run.failed") == []
    assert subjects(since="start", types=["run.*"], run=after.id) == [after.id]
    assert list(app.events(follow=False)) == []
    assert [e.subject async for e in app.aevents(since="start", follow=False)] == [
        before.id,
        after.id,
    ]


def _settled(app: Windlass, asked: dict[str, Any]) -> list[Event]:
    """What there is, once no transaction of another test holds the feed back."""
    while len(list(app.events(since="start", follow=False))) < 2:
        pass
    return list(app.events(follow=False, **asked))


@pytest.mark.parametrize(
    ("asked", "error", "why"),
    [
        ({"types": "run.suceeded"}, BadOption, "did you mean 'run.succeeded'"),
        ({"types": ["Run Failed"]}, BadOption, "is not the name of an event"),
        ({"types": 7}, BadOption, "it must be a list of names"),
        ({"since": "yesterday"}, BadOption, "neither the id of an event"),
        ({"since": datetime(2030, 1, 1)}, BadOption, "must be aware"),  # noqa: DTZ001 - refused
        ({"run": "nobody"}, RunNotFound, "nobody"),
        ({"buffer": 0}, BadOption, "at least one"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    asked: dict[str, Any], error: type[Exception], why: str
) -> None:
    app = Windlass("sqlite:///nowhere/windlass.db")  # which is not opened
    with pytest.raises(error, match=why):
        app.events(**asked)


def test_a_place_of_another_store_is_refused_when_it_begins(app: Windlass) -> None:
    with pytest.raises(BadOption, match="is not a place in the feed"):
        next(iter(app.events(since="1:2:3:4:5")))


def test_a_type_of_a_newer_release_is_passed_on_as_text(app: Windlass) -> None:
    run = app.job(_nothing).enqueue()
    insert = (
        "insert into {}event_rows (tenant, subject, seq, type, at, attempt) "
        "select tenant, {}, 9, 'run.beamed', {}, 0 from {}runs"
    )
    if "sqlite" in app.store.place:
        with app.transaction() as tx:
            tx.execute(insert.format("", "id", "created_at", ""))
    else:
        with psycopg.connect(str(app.settings.url)) as conn:
            conn.execute(insert.format("windlass.", "id", "created_at", "windlass.").encode())
    beamed = _settled(app, {"since": "start"})[-1]
    assert (beamed.type, beamed.run, beamed.job) == ("run.beamed", run.id, "_nothing")


def _nothing() -> None:
    """Do nothing."""


class Counted:
    """The names of the calls that the tail makes."""

    def __init__(self, app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        store = app.ground.workers_store
        run = store.run

        def counting(call: Call[Any]) -> Any:
            self.calls.append(call.name)
            return run(call)

        monkeypatch.setattr(store, "run", counting)

    async def more(self, name: str, times: int) -> None:
        """Wait until it has made so many more calls of this name."""
        enough = self.calls.count(name) + times
        async with asyncio.timeout(PATIENCE):
            while self.calls.count(name) < enough:  # noqa: ASYNC110 - in another thread
                await asyncio.sleep(0.005)


def test_one_tail_reads_for_all_who_listen(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    app.migrate()
    counted = Counted(app, monkeypatch)
    walk = app.job(_nothing)
    streams = [app.events(types="run.enqueued") for _ in range(20)]
    for stream in streams:
        stream.__enter__()
    readers: list[Iterator[Event]] = [iter(stream) for stream in streams]
    try:
        walk.enqueue()
        for reader in readers:
            next(reader)
        counted.calls.clear()
        run = walk.enqueue()
        assert {next(reader).subject for reader in readers} == {run.id}
        assert counted.calls.count("list_event_facts") == 1
        assert sum(thread.name == "windlass-tail" for thread in threading.enumerate()) == 1
    finally:
        for stream in streams:
            stream.close()
    assert not any(thread.name == "windlass-tail" for thread in threading.enumerate())


async def test_a_slow_listener_is_cut_and_can_go_on(app: Windlass) -> None:
    define(app)
    ids: list[str] = []
    async with app.aevents(buffer=3) as slow, app.aevents() as quick:
        reader = aiter(quick)
        for number in range(6):
            run = await app.aenqueue("walk", {"steps": number})
            ids.append(run.id)
            assert (await anext(reader)).subject == run.id
        found: list[str] = []
        with pytest.raises(ListenerTooSlow, match="misses none") as caught:
            await _read_into(found, slow)
    assert found == ids[: len(found)]
    assert 0 < len(found) <= 3
    rest = [e.subject async for e in app.aevents(since=caught.value.cursor, follow=False)]
    assert found + rest == ids


async def _read_into(found: list[str], events: AsyncEvents) -> None:
    async for event in events:
        found.append(event.subject)  # noqa: PERF401 - what came before the error counts


async def test_a_reader_of_the_past_is_not_cut_however_slow(app: Windlass) -> None:
    job = app.job(_nothing)
    await app.aenqueue_many([job.request() for _ in range(50)])
    found = []
    async with asyncio.timeout(PATIENCE):
        # Any transaction of the server may hold them back for a moment: they are not the past yet.
        while not [e async for e in app.aevents(since="start", follow=False)]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async for event in app.aevents(since="start", buffer=1):
            found.append(event.subject)
            if len(found) == 50:
                break
    assert found == sorted(set(found))


async def test_a_slow_transaction_is_never_skipped(
    pg_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(pg_database) as app:
        define(app)
        walk = app.jobs["walk"]
        await app.aenqueue("fall")
        (first,) = await read(app, "run.enqueued", since="start")
        counted = Counted(app, monkeypatch)
        async with app.aevents(since=first.id) as events:
            with psycopg.connect(pg_database) as conn:
                slow = walk.using(connection=conn).enqueue()
                quick = await walk.aenqueue()
                await counted.more("list_feed", 3)  # the tail looks, and must not pass the slow one
            reader = aiter(events)
            async with asyncio.timeout(PATIENCE / 3):
                found = [(await anext(reader)).subject for _ in range(2)]
        assert set(found) == {slow.id, quick.id}


async def test_listeners_wait_while_the_store_is_away(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windlass.errors import StoreUnavailable

    define(app)
    store = app.ground.workers_store
    run, failed = store.run, threading.Event()

    def away(call: Call[Any]) -> Any:
        if call.name == "list_feed" and not failed.is_set():
            failed.set()
            raise StoreUnavailable("it is away")
        return run(call)

    async with app.aevents() as events:
        monkeypatch.setattr(store, "run", away)
        made = await app.aenqueue("walk")
        async with asyncio.timeout(PATIENCE):
            assert (await anext(aiter(events))).subject == made.id
    assert failed.is_set()


def test_an_error_ends_all_who_listen(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    app.migrate()

    def broken(call: Call[Any]) -> Any:
        raise BadOption("feed", "it is broken")

    with app.events() as one, app.events() as other:
        monkeypatch.setattr(app.ground.workers_store, "run", broken)
        for events in (one, other):
            with pytest.raises(BadOption, match="it is broken"):
                next(iter(events))


FORKING = """
import os, sys
from windlass import Windlass
app = Windlass(sys.argv[1])

@app.job
def work(): ...

with app.events(types="run.enqueued") as here:
    first = work.enqueue()
    reader = iter(here)
    assert next(reader).subject == first.id     # the tail's thread runs
    child = os.fork()
    if child == 0:
        with app.events(types="run.enqueued") as there:
            second = work.enqueue()
            assert next(iter(there)).subject == second.id
        sys.exit()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(reader).type == "run.enqueued"
app.close()
"""


def test_a_forked_child_has_a_tail_of_its_own(url: str) -> None:
    subprocess.run([sys.executable, "-c", FORKING, url], check=True, timeout=40)


async def test_a_time_is_found_among_many_pages(app: Windlass) -> None:
    job = app.job(_nothing)
    for _ in range(20):
        await job.aenqueue()
    soon = app.sources.now() + timedelta(minutes=5)
    assert [e async for e in app.aevents(since=soon, follow=False)] == []
    long_ago = app.sources.now() - timedelta(days=5)
    found = []
    async with asyncio.timeout(PATIENCE):
        async for event in app.aevents(since=long_ago):
            found.append(event)
            if len(found) == 20:
                break
    assert names(found) == ["run.enqueued"] * 20
