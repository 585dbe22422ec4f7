"""Pause and resume queues and jobs of an application, with real workers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fixtures.apps import working
from windlass import BadOption, PauseKind, Status, Windlass


@pytest.fixture
def send(app: Windlass) -> Any:
    """A job in a queue of its own."""

    @app.job(queue="mail")
    async def send(n: int) -> int:
        return n

    @app.job
    async def other(n: int) -> int:
        return n

    return send


@pytest.mark.parametrize("kind", PauseKind)
async def test_a_worker_starts_nothing_that_is_paused_and_all_of_it_after_the_resume(
    app: Windlass, send: Any, kind: PauseKind
) -> None:
    stop, go_on = (
        (app.apause_queue, app.aresume_queue)
        if kind is PauseKind.QUEUE
        else (app.apause_job, app.aresume_job)
    )
    name = "mail" if kind is PauseKind.QUEUE else "send"
    with app.acting_as("ann"):
        paused = await stop(name, reason="the relay is down")
    runs = [await send.aenqueue(n) for n in range(3)]
    beside = await app.aenqueue("other", {"n": 7})
    async with working(app) as worker:
        left = await worker.drained()  # it ends, though something waits
        assert (left.ready, left.paused) == (0, 3)
        assert (await app.aget(beside.id)).result == 7
        assert {run.status for run in [await app.aget(run.id) for run in runs]} == {Status.QUEUED}

        assert await go_on(name)  # wakes the worker

        async with asyncio.timeout(10):
            assert [await app.aresult(run) for run in runs] == [0, 1, 2]
    assert (paused.kind, paused.name, paused.by) == (kind, name, "ann")
    assert not await go_on(name)


def test_pauses_are_shown(app: Windlass, send: Any) -> None:
    send.enqueue(1)
    with app.acting_as("ann"):
        app.pause_queue("mail", reason="the relay is down")
        app.pause_queue("empty")
    with app.acting_as("bob"):
        app.pause_queue("mail", reason="again")
        app.pause_job("send")

    assert [(p.kind, p.name, p.by, p.reason) for p in app.pauses()] == [
        ("queue", "empty", "ann", None),
        ("queue", "mail", "ann", "the relay is down"),
        ("job", "send", "bob", None),
    ]
    mail, empty = app.queues()
    assert (mail.name, mail.ready) == ("mail", 1)
    assert mail.pause == app.pauses()[1]
    assert (empty.name, empty.ready, empty.pause) == ("empty", 0, app.pauses()[0])
    assert [entry.actor for entry in app.audit(queue="mail")] == ["bob", "ann"]
    assert [entry.verb for entry in app.audit(job="send")] == ["pause"]
    assert app.resume_job("send")
    assert [entry.verb for entry in app.audit(job="send")] == ["resume", "pause"]
    with pytest.raises(BadOption):
        app.audit(queue="mail", job="send")


@pytest.mark.parametrize("name", ["", "two words", "a,b"])
def test_what_is_no_name_is_refused(app: Windlass, name: str) -> None:
    for verb in (app.pause_queue, app.resume_queue, app.pause_job, app.resume_job):
        with pytest.raises(BadOption):
            verb(name)
    assert app.pauses() == []
