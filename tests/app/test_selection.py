"""Runs that filters select: gone through page by page, counted, and acted on all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.kit import make_worker
from tests.fixtures.apps import working
from windlass import BadOption, Run, Status, StoreUnavailable, UsageError, Windlass
from windlass.client import bulk, selection
from windlass.client.bulk import BulkResult, apply_to_all
from windlass.domain.bulk import BULK_VERBS, Applied
from windlass.domain.run import Want
from windlass.errors import AmbiguousRun, RunNotFound, ScheduleNotFound, StoreBusy
from windlass.store.flow import Act, Hint, Pause, drive
from windlass.store.interface import Call


def ids(runs: Any) -> list[str]:
    return [run.id for run in runs]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and transactions of a few runs, so that a few runs need several."""
    monkeypatch.setattr(selection, "_PAGE", 2)
    monkeypatch.setattr(bulk, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(bulk, "FOUND_AT_ONCE", 4)


@pytest.fixture
def made(app: Windlass) -> Sequence[Run]:
    """Seven runs that wait, oldest first."""

    @app.job
    async def idle(n: int) -> None: ...

    @app.job
    async def other() -> None: ...

    app.jobs["other"].enqueue()
    return app.enqueue_many(idle.request(n) for n in range(7))


@pytest.fixture
async def dead(app: Windlass) -> Sequence[Run]:
    """Five runs that have failed for good."""

    @app.job(max_attempts=1, queue="bad")
    async def fail(n: int) -> None:
        raise ValueError(n)

    runs = await app.aenqueue_many(fail.request(n) for n in range(5))
    async with working(app, queues=("bad",)):
        return await app.await_all(runs, timeout=30)


# -- going through ----------------------------------------------------------------------------


async def test_a_selection_is_gone_through_on_both_faces(
    app: Windlass, made: Sequence[Run]
) -> None:
    chosen = app.select(job="idle", status=["queued", Status.SCHEDULED])

    assert ids(chosen) == ids(made)[::-1]
    assert [run.id async for run in chosen] == ids(made)[::-1]
    assert ids(chosen) == ids(made)[::-1], "each time anew"
    assert chosen.count() == await chosen.acount() == 7
    assert ids(app.select(job="nobody")) == []
    assert app.select().count() == 8


def test_each_page_is_one_call(
    app: Windlass, made: Sequence[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    run = app.store.run

    def noted(call: Call[Any]) -> Any:
        calls.append(call.name)
        return run(call)

    monkeypatch.setattr(app.store, "run", noted)
    first = next(iter(app.select(job="idle")))

    assert (first.id, calls) == (made[-1].id, ["list_runs"])
    assert len(list(app.select(job="idle"))) == 7
    assert calls[1:] == ["list_runs"] * 4


def test_filters_are_checked_when_they_are_given(app: Windlass) -> None:
    wrong: list[dict[str, Any]] = [
        {"jobs": "x"}, {"status": "done"}, {"status": ["queued", "done"]}, {"status": []},
        {"status": 7}, {"key": ""}, {"worker": 7}, {"finished_from": datetime(2030, 1, 1)},  # noqa: DTZ001
        {"error": ""},
    ]  # fmt: skip
    for query in wrong:
        with pytest.raises(BadOption):
            app.select(**query)
        with pytest.raises(BadOption):
            app.list(**query)


def test_a_schedule_is_named_by_key_or_by_id(app: Windlass) -> None:
    @app.job
    async def idle() -> None: ...

    schedule = app.schedules.put("idle", key="nightly", interval="1h")
    run = app.schedules.trigger("nightly")
    assert run is not None
    idle.enqueue()

    assert ids(app.list(schedule="nightly")) == ids(app.select(schedule=schedule.id)) == [run.id]
    app.schedules.delete("nightly")
    assert ids(app.list(schedule=schedule.id)) == [run.id], "its runs outlive it"
    with pytest.raises(ScheduleNotFound):
        app.list(schedule="nightly")


# -- acting on all ------------------------------------------------------------------------------


async def test_every_verb_does_what_it_says_to_all_of_them(
    app: Windlass, made: Sequence[Run], dead: Sequence[Run]
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)  # noqa: TID251 - the store is on the machine's clock
    waiting = app.select(job="idle")

    assert waiting.reprioritize(priority=5).done == 7
    assert {run.priority for run in waiting} == {5}
    assert (await waiting.areprioritize(queue="slow")).done == 7
    assert waiting.reschedule(at=later).done == 7
    assert {(run.status, run.due_at, run.queue) for run in waiting} == {
        (Status.SCHEDULED, later, "slow")
    }
    assert (await waiting.areschedule(delay=0)).done == 7
    assert {run.status for run in waiting} == {Status.QUEUED}
    assert waiting.cancel(reason="not needed").done == 7
    assert {(run.status, run.reason) for run in waiting} == {(Status.CANCELED, "not needed")}
    assert app.select(job="fail", error="ValueError").retry(max_attempts=2).done == 5
    assert {run.status for run in app.select(job="fail")} == {Status.QUEUED}
    assert app.list(job="other")[0].status is Status.QUEUED, "the others are left alone"


async def test_discard_takes_them_off_the_dead_letters(app: Windlass, dead: Sequence[Run]) -> None:
    result = await app.select(job="fail").adiscard()

    assert (result.done, result.refused) == (5, {})
    assert app.list(dead=True) == []
    assert app.select(job="fail").discard().matched == 0
    again = app.select(status="failed").discard()
    assert (again.done, again.refused) == (0, {"discarded": 5})


async def test_what_is_meant_where_no_status_is_given(
    app: Windlass, made: Sequence[Run], dead: Sequence[Run]
) -> None:
    app.select(job="other").cancel()
    app.discard(dead[0].id)

    assert app.select(everything=True).retry(dry_run=True).done == 4, "dead letters alone"
    assert app.select(everything=True).discard(dry_run=True).done == 4
    assert app.select(everything=True).reschedule(delay=0, dry_run=True).done == 7
    assert app.select(everything=True).cancel(dry_run=True).done == 7
    both = app.select(status=["failed", "canceled"]).retry()
    assert both.done == 6, "and what is said, if it is said"


def test_what_was_refused_is_counted_by_reason(app: Windlass, made: Sequence[Run]) -> None:
    app.cancel(made[0].id)
    soon = app.jobs["idle"].using(expires="1m").enqueue(9)
    chosen = app.select(job="idle", status=["queued", "canceled"])

    tried = chosen.reprioritize(priority=1, dry_run=True)
    done = chosen.reprioritize(priority=1)
    moved = app.select(job="idle").reschedule(delay="1h")

    for result in (tried, done):
        assert (result.done, result.refused, result.matched) == (7, {"canceled": 1}, 8)
    assert list(done.errors) == [made[0].id]
    assert "reprioritize is for runs that wait" in str(done.errors[made[0].id])
    assert (moved.done, moved.refused) == (6, {"run_expires": 1})
    assert soon.refresh().status is Status.QUEUED


async def test_a_dry_run_counts_and_changes_nothing(
    app: Windlass, made: Sequence[Run], dead: Sequence[Run]
) -> None:
    def state() -> list[tuple[str, str, datetime, int]]:
        return [(r.id, r.status, r.updated_at, r.priority) for r in app.list(limit=100)]

    before = state()
    chosen = app.select(everything=True)
    tried: list[BulkResult] = [
        chosen.cancel(dry_run=True),
        chosen.retry(dry_run=True),
        chosen.reschedule(delay="1h", dry_run=True),
        chosen.reprioritize(priority=1, dry_run=True),
        chosen.change(tags=["late"], dry_run=True),
        await chosen.adiscard(dry_run=True),
    ]

    assert [result.done for result in tried] == [8, 5, 8, 8, 8, 5]
    assert all(result.dry_run for result in tried)
    assert ids(tried[1].sample) == ids(dead)[::-1]
    assert len(tried[0].sample) == 8
    assert tried[1].to_dict()["done"] == 5
    assert state() == before


def test_a_verb_without_a_filter_is_refused(app: Windlass, made: Sequence[Run]) -> None:
    wanted: Any = None
    for chosen in (app.select(), app.select(job=wanted)):
        with pytest.raises(UsageError, match="everything=True"):
            chosen.cancel()
        with pytest.raises(UsageError):
            chosen.retry(dry_run=True)
    assert app.select(status="queued").count() == 8
    assert app.select(everything=True).cancel().done == 8


def test_bad_arguments_are_refused_before_anything_is_done(
    app: Windlass, made: Sequence[Run]
) -> None:
    chosen = app.select(job="idle")
    with pytest.raises(BadOption):
        chosen.reprioritize()
    with pytest.raises(BadOption):
        chosen.reprioritize(priority=10**9)
    with pytest.raises(BadOption):
        chosen.reschedule()
    with pytest.raises(BadOption):
        chosen.reschedule(at=datetime(2030, 1, 1))  # noqa: DTZ001
    assert chosen.count() == 7


async def test_running_runs_are_asked_to_end(app: Windlass) -> None:
    started = asyncio.Event()

    @app.job
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await endless.aenqueue()
    async with working(app):
        await started.wait()
        assert (await app.select(job="endless").acancel(reason="enough")).done == 1
        assert (await run.await_end(timeout=30)).status is Status.CANCELED


# -- the protocol -------------------------------------------------------------------------------


@pytest.fixture
def stepping(app: Windlass) -> Callable[..., Any]:
    """Runs a bulk verb with hands on each of its steps."""

    def run(
        verb: str,
        hook: Callable[[Call[Any] | Act[Any]], Any],
        status: Sequence[Status] = (Status.QUEUED,),
        **arguments: Any,
    ) -> Any:
        query = {"job": "idle", "status": tuple(status)}

        def do(step: Call[Any] | Act[Any]) -> Any:
            answer = hook(step)
            if answer is not None:
                return answer
            return app.store.run(step) if isinstance(step, Call) else None

        return drive(apply_to_all(app.scope, BULK_VERBS[verb], query, arguments), do)

    return run


def test_what_comes_back_meanwhile_is_not_visited_again(
    app: Windlass, made: Sequence[Run], stepping: Callable[..., Any]
) -> None:
    """What was done is undone before the next transaction, and there are new ones."""
    app.select(job="idle").cancel()
    visited: list[str] = []

    def hook(step: Call[Any] | Act[Any]) -> None:
        if isinstance(step, Call) and step.name == "apply_to_many":
            for run in visited:
                app.cancel(run)
            visited.extend(step.arguments[2])
            app.jobs["idle"].enqueue(9).cancel()

    result = stepping("retry", hook, status=(Status.CANCELED,), max_attempts=None)

    assert visited == ids(made)[::-1]
    assert result.done == 7


def test_what_was_done_before_an_error_stays_and_is_said(
    app: Windlass, made: Sequence[Run], stepping: Callable[..., Any]
) -> None:
    calls: Iterator[int] = iter(range(10))

    def hook(step: Call[Any] | Act[Any]) -> None:
        if isinstance(step, Call) and step.name == "apply_to_many":
            assert len(step.arguments[2]) <= 2
            if next(calls) == 2:
                raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable) as caught:
        stepping("cancel", hook, reason=None)

    assert caught.value.__notes__ == ["4 runs were canceled before this."]
    assert app.select(job="idle", status="canceled").count() == 4
    assert app.select(job="idle").cancel().done == 3, "the same call does the rest"


def test_what_is_busy_is_tried_again_and_then_counted(
    app: Windlass, made: Sequence[Run], stepping: Callable[..., Any]
) -> None:
    free_again, never_free = made[3].id, made[5].id
    tries: list[str] = []
    pauses: list[float] = []

    def hook(step: Call[Any] | Act[Any]) -> Any:
        if isinstance(step, Pause):
            pauses.append(step.seconds)
        if not isinstance(step, Call) or step.name != "apply_to_many":
            return None
        tries.extend(step.arguments[2])
        blocked = {never_free} | ({free_again} if tries.count(free_again) < 3 else set())
        busy = [each for each in step.arguments[2] if each in blocked]
        others = [each for each in step.arguments[2] if each not in blocked]
        done = app.store.run(
            app.store.operations.apply_to_many("cancel", "default", others, {"reason": None})
        )
        return [*done, *(Applied(each, error=StoreBusy("busy")) for each in busy)]

    result = stepping("cancel", hook, reason=None)

    assert (result.done, result.refused) == (6, {"busy": 1})
    assert tries.count(free_again) == 3
    assert pauses == list(bulk.BUSY_PAUSES)
    assert tries.count(never_free) == 1 + len(pauses)
    assert list(result.errors) == [never_free]


def test_workers_hear_of_what_became_ready_and_of_what_is_to_end(
    app: Windlass,
    made: Sequence[Run],
    stepping: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hints: list[Hint] = []
    messages: list[bytes] = []
    monkeypatch.setattr(app.transport, "publish", messages.extend)

    def hook(step: Call[Any] | Act[Any]) -> None:
        if isinstance(step, Hint):
            hints.append(step)

    stepping("reschedule", hook, at=None, delay=3600.0)
    assert (hints, messages) == ([], []), "nothing is ready, nothing is to end"
    stepping("reschedule", hook, status=(Status.SCHEDULED,), at=None, delay=0.0)
    assert (len(hints), len(messages)) == (4, 7), "a hint for each transaction"
    app.store.run(app.store.operations.register(make_worker("w"), 60.0))
    want = Want(limit=10, jobs=("idle",))
    app.store.run(app.store.operations.cycle("w", 1, [], want))
    stepping("cancel", hook, status=(Status.RUNNING,), reason=None)
    assert (len(hints), len(messages)) == (8, 7)


# -- ids that people type -----------------------------------------------------------------------


async def test_the_beginning_of_an_id_is_enough_if_it_is_unique(
    app: Windlass, made: Sequence[Run]
) -> None:
    run = made[3].id

    assert app.full_id(run) == app.full_id(run[:-2].upper()) == run
    assert await app.afull_id(f" {run.replace('-', '')[:30]} ") == run
    with pytest.raises(RunNotFound):
        app.full_id("ffffffffff")
    with pytest.raises(RunNotFound):
        app.full_id("not an id")
    with pytest.raises(BadOption, match="at least 8"):
        app.full_id(run[:7])
    with pytest.raises(AmbiguousRun) as caught:
        app.full_id(run[:8])
    assert set(ids(made)) <= set(caught.value.candidates)


def test_at_most_ten_candidates_are_named(app: Windlass) -> None:
    @app.job
    async def idle(n: int) -> None: ...

    runs = app.enqueue_many(idle.request(n) for n in range(12))

    with pytest.raises(AmbiguousRun) as caught:
        app.full_id(runs[0].id[:8])

    text = str(caught.value)
    assert sum(run.id in text for run in runs) == 10
    assert "and more. Give more of the id." in text
