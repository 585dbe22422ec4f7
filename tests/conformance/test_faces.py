"""The two faces: every operation blocking and on the loop, from threads and from many tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

from tests.conformance.kit import (
    JOB,
    WORKER,
    Driver,
    held_of,
    logged,
    make_finish,
    make_worker,
    raw,
    ref,
    told,
)
from tests.conformance.places import Place
from windlass.domain.approval import AnswerOutcome
from windlass.domain.changes import Changes
from windlass.domain.envelope import About, NewEvent
from windlass.domain.listing import RunFilter
from windlass.domain.outcome import Outcome
from windlass.domain.pause import PauseKind
from windlass.domain.run import JobRow, NewRun, Want
from windlass.domain.runlog import LogLine, lines_of
from windlass.domain.states import Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.errors import KeyConflict, RunNotFound, WindlassError
from windlass.sources import Sources
from windlass.store.interface import Store
from windlass.store.operations import Operations
from windlass.store.operations.audit import AuditOperations
from windlass.store.operations.control import ControlOperations
from windlass.store.operations.declare import declared
from windlass.store.operations.events import EventOperations
from windlass.store.operations.jobs import JobOperations
from windlass.store.operations.pauses import PauseOperations
from windlass.store.operations.runs import RunOperations
from windlass.store.operations.steps import StepOperations
from windlass.store.operations.workers import WorkerOperations

pytestmark = pytest.mark.every_server

PATIENCE = 30.0  # seconds after which a hint is given up for lost


class _Recorder:
    """The operations of a store, and which of them were asked for."""

    def __init__(self, ops: Operations) -> None:
        self._ops = ops
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self._ops, name)


@pytest.mark.both_faces
def test_every_operation_works(drive: Driver) -> None:
    recorder = _Recorder(drive.ops)
    ops, call = cast("Operations", recorder), drive.call

    call(ops.sync_jobs([JobRow(name=JOB, queue="main")]))
    assert call(ops.get_job("default", JOB)) is not None
    assert len(call(ops.list_jobs("default"))) == 1
    one, two, late = call(ops.enqueue([drive.new(), drive.new(), drive.new(delay=10.0)]))
    call(ops.register(make_worker(), 30.0))
    assert len(call(ops.list_workers())) == 1
    reply = call(ops.cycle(WORKER, 1, [], Want(limit=5, jobs=(JOB,))))
    first, second = reply.claimed
    assert [first.id, second.id] == [one.id, two.id]
    assert not call(ops.record_progress([told(held_of(first), 0.5, "half")])).lost
    line = LogLine(at=drive.now, level="INFO", logger="shop", message="x")
    assert not call(ops.record_logs([logged(held_of(first), line)])).lost
    (chunk,) = call(ops.list_logs("default", one.id, None, 5))
    assert [found.message for found in lines_of(chunk)] == ["x"]
    step = StepWrite(path="go", kind=StepKind.SIGNAL, state=StepState.WAITING, signal="go")
    (waits,) = call(ops.record_steps(held_of(first), [step])) or ()
    assert waits.state is StepState.WAITING
    assert call(ops.signal(ref(one.id), "go", raw(7), "k")).created
    assert not call(ops.signal(ref(one.id), "go", raw(7), "k")).created
    (answered,) = call(ops.record_steps(held_of(first), [step])) or ()
    assert (answered.state, answered.value) == (StepState.DONE, raw(7))
    assert [found.path for found in call(ops.list_steps("default", one.id, None, 5))] == ["go"]
    assert call(ops.list_approvals("default", None, 5)) == []
    asked = call(ops.answer_approval(ref(one.id), "deploy", True, None, None, None))
    assert asked.outcome is AnswerOutcome.UNKNOWN
    assert call(ops.list_generations("default", one.id, 0, 5)) == []
    assert [sent.taken_by for sent in call(ops.list_signals("default", one.id, 0, 5))] == ["go"]
    assert call(ops.cancel(ref(two.id), "enough")).status is Status.RUNNING
    renewed = call(ops.renew(WORKER, 30.0, [held_of(first), held_of(second)], 1))
    assert [order.id for order in renewed.orders] == [two.id]
    shipped = NewEvent(name="order.shipped", data=msgspec.Raw(b"{}"))
    assert call(ops.emit(held_of(second), shipped)) is not None
    assert call(ops.cycle(WORKER, 2, [make_finish(first, Outcome.FAILED)], None)).lost == ()
    assert call(ops.retire(WORKER)) == 1
    assert call(ops.has_ended(ref(two.id))) is True
    assert call(ops.has_ended(ref(late.id))) is False
    assert call(ops.has_ended(ref("nobody"))) is None
    ended = call(ops.get_run(ref(two.id)))
    assert ended is not None
    assert ended.status is Status.CANCELED
    assert call(ops.discard("default", [one.id])) == 1
    assert call(ops.retry(ref(one.id), None)).status is Status.QUEUED
    assert call(ops.reschedule(ref(one.id), delay=0.0)).status is Status.QUEUED
    assert call(ops.reprioritize(ref(one.id), priority=3)).priority == 3
    assert call(ops.change(ref(one.id), Changes(tags=("t",)))).tags == ("t",)
    assert call(ops.pause(ref(one.id), None)).status is Status.PAUSED
    assert call(ops.resume(ref(one.id))).status is Status.QUEUED
    assert call(ops.terminate(ref(one.id), None)).status is Status.CANCELED
    assert call(ops.restart(ref(one.id), None)).status is Status.QUEUED
    assert call(ops.list_audit("default", limit=1))[0].verb == "restart"
    assert call(ops.pause_work("default", PauseKind.QUEUE, "aside")).name == "aside"
    call(ops.settle_pauses())
    assert [pause.name for pause in call(ops.list_pauses("default"))] == ["aside"]
    assert call(ops.resume_work("default", PauseKind.QUEUE, "aside")) is not None
    drive.advance(10)
    swept = call(ops.sweep(dispatch=True, expire=True, reap=True, max_crashes=3, limit=10))
    assert [run.id for run in swept.dispatched] == [late.id]
    assert len(call(ops.unpublished(5.0, 10))) == 1
    assert len(call(ops.get_runs("default", [one.id, two.id]))) == 2
    assert len(call(ops.list_runs(RunFilter()))) == 3
    assert call(ops.find_runs(RunFilter(limit=1))).ids == (late.id,)
    assert call(ops.ids_between("default", one.id, two.id, 5)) == [one.id, two.id]
    assert call(ops.look_for_ends("default", [one.id, two.id])) == {one.id: False, two.id: True}
    none = {"reason": None}
    assert len(call(ops.apply_to_many("cancel", "default", [two.id, one.id[:-1]], none))) == 2
    assert len(call(ops.list_events(ref(one.id), 0, 20))) == 14
    assert len(call(ops.list_attempts(ref(one.id), None, 10))) == 1
    assert [event.subject for event in drive.feed(at_least=3)[:2]] == [one.id, two.id]
    assert call(ops.list_feed(drive.feed()[-1].place, 10)) == []
    assert call(ops.list_feed(call(ops.find_place(None)), 10)) == []
    facts = call(ops.list_event_facts("default", [About(one.id, 1), About("nobody", 1)]))
    assert [(fact.id, fact.attempt, fact.worker) for fact in facts] == [(one.id, 1, WORKER)]
    assert call(ops.backlog(None, None)).ready == 2

    kinds: tuple[type, ...] = (
        *(RunOperations, ControlOperations, WorkerOperations, JobOperations),
        *(StepOperations, AuditOperations, PauseOperations, EventOperations),
    )
    assert not {name for kind in kinds for name in declared(kind)} - recorder.names


@pytest.mark.both_faces
def test_a_refusal_leaves_the_store_usable(drive: Driver) -> None:
    drive.add(key="k")

    for _ in range(10):
        with pytest.raises(KeyConflict):
            drive.enqueue(drive.new(key="k", input=raw("other")))
        with pytest.raises(RunNotFound):
            drive.cancel(ref("nobody"))

    assert len(drive.rows("runs")) == 1
    drive.add()


def test_the_time_is_the_machines(real_store: Store) -> None:
    clock = Sources.system().clock
    before = clock.now()

    told = real_store.run(real_store.operations.register(make_worker(), 30.0))

    assert before <= told <= clock.now()
    (worker,) = real_store.run(real_store.operations.list_workers())
    assert (worker.started_at, worker.alive_until) == (told, told + timedelta(seconds=30))


def test_the_blocking_face_is_for_any_thread(steer: Driver) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: steer.add(), range(40)))

    assert len({run.id for run in runs}) == len(steer.rows("runs")) == 40


async def test_the_blocking_face_works_inside_a_running_loop(steer: Driver) -> None:
    assert steer.get(steer.add()).status is Status.QUEUED


def test_a_store_goes_on_after_it_was_closed(steer: Driver) -> None:
    run = steer.add()
    steer.store.close()
    steer.store.close()

    assert steer.get(run).status is Status.QUEUED


def test_the_async_face_serves_one_loop_after_another(place: Place) -> None:
    sources = Sources.system()
    store = place.open(sources)

    async def visit() -> int:
        await store.arun(store.operations.enqueue([_run(sources)]))
        found = await store.arun(store.operations.list_runs(RunFilter()))
        await store.aclose()
        return len(found)

    assert [asyncio.run(visit()) for _ in range(3)] == [1, 2, 3]


@asynccontextmanager
async def _opened(place: Place) -> AsyncIterator[tuple[Store, Sources]]:
    sources = Sources.system()
    store = place.open(sources)
    try:
        yield store, sources
    finally:
        await store.aclose()


def _run(sources: Sources, **fields: Any) -> NewRun:
    given = {"id": sources.new_id(), "job": JOB, "queue": "main", "input": raw(1)}
    return NewRun(**(given | fields))


async def test_of_many_calls_at_once_each_gets_its_own_answer(place: Place) -> None:
    async with _opened(place) as (store, sources):
        first = _run(sources, key="k")
        await store.arun(store.operations.enqueue([first]))
        good = [_run(sources) for _ in range(40)]
        bad = [_run(sources, key="k", input=raw("other")) for _ in range(10)]
        known = [_run(sources, key="k") for _ in range(10)]
        mixed = [run for five in zip(*[iter(good)] * 4, bad, known, strict=True) for run in five]

        answers = await asyncio.gather(
            *(store.arun(store.operations.enqueue([run])) for run in mixed),
            return_exceptions=True,
        )

        told = dict(zip([run.id for run in mixed], answers, strict=True))
        assert all(isinstance(told[run.id], KeyConflict) for run in bad)
        for run in good:
            (answer,) = cast("Any", told[run.id])
            assert (answer.id, answer.created) == (run.id, True)
        for run in known:
            (answer,) = cast("Any", told[run.id])
            assert (answer.id, answer.created) == (first.id, False)
        stored = await store.arun(store.operations.list_runs(RunFilter(limit=100)))
        assert {record.id for record in stored} == {first.id, *(run.id for run in good)}


async def test_a_call_that_is_given_up_leaves_the_store_usable(place: Place) -> None:
    async with _opened(place) as (store, sources):
        await store.arun(store.operations.enqueue([_run(sources)]))
        tasks = [
            asyncio.ensure_future(store.arun(store.operations.enqueue([_run(sources)])))
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()

        ends = await asyncio.gather(*tasks, return_exceptions=True)

        assert not [end for end in ends if isinstance(end, WindlassError)]
        found = await store.arun(store.operations.list_runs(RunFilter(limit=100)))
        assert 11 <= len(found) <= 21, "what was not given up is there"


async def test_a_hint_wakes_whoever_listens_through_another_store(place: Place) -> None:
    async with _opened(place) as (listening, _), _opened(place) as (ringing, sources):
        await ringing.arun(ringing.operations.enqueue([_run(sources)]))
        wakeups = await listening.listen()
        # The first wake-up may be the listener's own, for what it might have missed before.
        for _ in range(3):
            async with asyncio.timeout(PATIENCE):
                while not await wakeups.wait(0.05):
                    await ringing.anotify()
        await wakeups.close()


async def test_a_hint_wakes_the_own_process_too(place: Place) -> None:
    async with _opened(place) as (store, sources):
        store.run(store.operations.enqueue([_run(sources)]))
        wakeups = await store.listen()
        for _ in range(3):
            async with asyncio.timeout(PATIENCE):
                while not await wakeups.wait(0.05):
                    store.notify()
        await wakeups.close()


async def test_closing_a_store_leaves_who_listens_on_another_running_loop_alone(
    place: Place,
) -> None:
    """A worker in another thread would only poll from then on, or break."""
    async with _opened(place) as (store, _):
        listening, done, woken = threading.Event(), threading.Event(), threading.Event()

        async def other() -> None:
            wakeups = await store.listen()
            while await wakeups.wait(1.0):  # its own, for what it might have missed before
                pass
            listening.set()
            while not await wakeups.wait(0.05):
                assert not done.is_set()
            woken.set()
            await wakeups.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(asyncio.run, other()))
            try:
                assert await asyncio.to_thread(listening.wait, PATIENCE)
                await store.aclose()
                store.notify()
                assert await asyncio.to_thread(woken.wait, PATIENCE)
            finally:
                done.set()


async def test_closing_a_store_is_no_trouble_where_a_loop_was_left_listening(place: Place) -> None:
    loop = asyncio.new_event_loop()
    async with _opened(place) as (store, sources):
        await asyncio.to_thread(asyncio.run, store.listen())
        paused = await asyncio.to_thread(loop.run_until_complete, store.listen())
        store.notify()
        await store.aclose()
        await store.arun(store.operations.enqueue([_run(sources)]))
        store.notify()
    await asyncio.to_thread(loop.run_until_complete, paused.close())
    loop.close()


async def test_a_hint_to_nobody_is_no_trouble(place: Place) -> None:
    async with _opened(place) as (store, _):
        store.notify()
        await store.anotify()
        wakeups = await store.listen()
        await wakeups.close()
        store.notify()
