"""`ctx.first` in handlers that run in threads, on both stores, under the virtual clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from windlass import (
    ApprovalRequest,
    Context,
    Retry,
    Status,
    StepKind,
    StepState,
    SyncContext,
    WaitTimeout,
    Windlass,
)  # fmt: skip
from windlass.testing import clock_of, crash_after, drain


def test_the_first_wins_and_stays_the_winner(app: Windlass) -> None:
    attempts: list[int] = []

    @app.job(retry=Retry.fixed("1s"))
    def order(ctx: SyncContext) -> Any:
        attempts.append(ctx.attempt)
        name, value = ctx.first(paid=ctx.waiting_for("paid"), late=ctx.sleeping("late", days=3))
        after = ctx.wait_for("shipped")
        return [name, value, after]

    run = order.enqueue()
    drain(app)
    assert run.refresh().status is Status.WAITING
    assert set(run.waits) == {"paid", "late"}
    assert run.due_at == clock_of(app).now() + timedelta(days=3)
    run.signal("paid", 7)
    drain(app)
    # The other one is over by now, and yet it has not won.
    clock_of(app).advance(4 * 86_400)
    run.signal("shipped", "rail")
    drain(app).check()
    assert run.refresh().result == ["paid", 7, "rail"]
    assert attempts == [1, 2, 3]
    (race,) = [step for step in run.steps() if step.kind is StepKind.RACE]
    assert (race.path, msgspec.json.decode(race.value or b"")) == ("first", "paid")


def test_time_wins_and_a_late_signal_stays_for_the_next_wait(app: Windlass) -> None:
    @app.job
    def order(ctx: SyncContext) -> Any:
        name, value = ctx.first(paid=ctx.waiting_for("paid"), late=ctx.sleeping("3d"))
        return [name, value, ctx.wait_for("paid", key="after")]

    run = order.enqueue()
    drain(app, until="4d")
    run.signal("paid", 7)
    drain(app).check()
    assert run.refresh().result == ["late", None, 7]


def test_one_that_is_there_already_takes_no_seat_and_nothing_of_the_others(app: Windlass) -> None:
    @app.job
    def order(ctx: SyncContext) -> Any:
        won = ctx.first(a=ctx.waiting_for("a"), b=ctx.waiting_for("b"))
        return [won.name, won.value, ctx.attempt]

    run = order.enqueue()
    run.signal("b", 2)
    run.signal("a", 1)
    drain(app).check()
    assert run.refresh().result == ["a", 1, 1]
    assert [(s.name, s.taken_by) for s in run.signals()] == [("b", None), ("a", "a")]


def test_a_crash_when_the_winner_is_recorded_changes_nothing(app: Windlass) -> None:
    @app.job
    def order(ctx: SyncContext) -> Any:
        return list(ctx.first(a=ctx.waiting_for("a"), b=ctx.waiting_for("b")))

    run = order.enqueue()
    run.signal("b", 2)
    with crash_after(app, "first"):
        drain(app)
    drain(app).check()
    assert (run.refresh().result, run.crash_count) == (["b", 2], 1)


@pytest.mark.parametrize("default", [True, False])
def test_a_wait_that_times_out_is_first_too(app: Windlass, default: bool) -> None:
    given = {"default": "nothing"} if default else {}

    @app.job(max_attempts=1)
    def order(ctx: SyncContext) -> Any:
        try:
            paid = ctx.waiting_for("paid", timeout="1d", **given)
            return list(ctx.first(paid=paid, late=ctx.sleeping("late", "2d")))
        except WaitTimeout as error:
            return error.step

    run = order.enqueue()
    drain(app, until="3d").check()
    assert run.refresh().result == (["paid", "nothing"] if default else "paid")


def test_an_approval_in_a_race(app: Windlass) -> None:
    told: list[ApprovalRequest] = []

    @app.job
    def release(ctx: SyncContext) -> Any:
        ok = ctx.asking("Deploy?", name="deploy", notify=told.append)
        name, value = ctx.first(stop=ctx.waiting_for("stop"), ok=ok)
        return [name, value.by]

    run = release.enqueue()
    drain(app)
    assert set(run.refresh().waits) == {"deploy", "stop"}
    app.approve(run.id, by="ann", token=told[0].token)
    drain(app).check()
    assert (run.refresh().result, len(told)) == (["ok", "ann"], 1)


def test_a_typed_payload(app: Windlass) -> None:
    @app.job
    def order(ctx: SyncContext) -> Any:
        wait = ctx.waiting_for("paid", type=dict[str, int])
        return ctx.first(paid=wait, late=ctx.sleeping("1d")).value["amount"]

    run = order.enqueue()
    run.signal("paid", {"amount": 7})
    drain(app).check()
    assert run.refresh().result == 7


def test_an_async_handler_replays_what_one_in_a_thread_recorded(app: Windlass) -> None:
    """Both have the same steps: a handler may become async while its runs wait."""

    @app.job
    def order(ctx: SyncContext) -> Any:
        return list(ctx.first(paid=ctx.waiting_for("paid"), late=ctx.sleeping("late", days=3)))

    run = order.enqueue()
    drain(app)
    waiting = {step.path: step.state for step in run.steps()}
    assert waiting == {"paid": StepState.WAITING, "late": StepState.WAITING}

    @app.job(name="other")
    async def other(ctx: Context) -> Any:
        return list(await ctx.first(paid=ctx.wait_for("paid"), late=ctx.sleep("late", days=3)))

    twin = other.enqueue()
    drain(app)
    assert {step.path: step.state for step in twin.steps()} == waiting


@pytest.mark.parametrize("waits", [{"a": 7, "b": 8}, {}])
def test_what_is_no_wait_is_refused(app: Windlass, waits: dict[str, Any]) -> None:
    @app.job(max_attempts=1)
    def order(ctx: SyncContext) -> Any:
        return ctx.first(**waits)

    run = order.enqueue()
    drain(app)
    error = run.refresh().error
    assert error is not None
    assert "ctx.waiting_for" in error.message if waits else "two waits or more" in error.message
