"""Handlers that ask people: `ctx.approval`, on both stores, under the virtual clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from windlass import (
    Approval,
    ApprovalClosed,
    ApprovalNotFound,
    ApprovalRequest,
    BadToken,
    Context,
    Retry,
    RunNotFound,
    Status,
    SyncContext,
    Windlass,
)  # fmt: skip
from windlass.errors import BadOption, IllegalTransition
from windlass.testing import adrain, answer_approval, clock_of, crash_after, drain

NOBODY = "01890000-0000-7000-8000-000000000000"


def deploys(app: Windlass, **options: Any) -> Any:
    @app.job
    async def deploy(ctx: Context) -> Approval:
        return await ctx.approval("Deploy to production?", **options)

    return deploy


def deploys_in_thread(app: Windlass, **options: Any) -> Any:
    @app.job
    def deploy(ctx: SyncContext) -> Approval:
        return ctx.approval("Deploy to production?", **options)

    return deploy


@pytest.mark.parametrize("make", [deploys, deploys_in_thread])
def test_people_are_asked_and_answer(app: Windlass, make: Any) -> None:
    run = make(app, expires="2d").enqueue()
    drain(app)
    assert run.refresh().status is Status.WAITING
    (one,) = app.approvals()
    asked = clock_of(app).now()
    assert (one.run, one.job, one.name) == (run.id, "deploy", "approval")
    assert (one.question, one.asked_at) == ("Deploy to production?", asked)
    assert one.expires_at == asked + timedelta(days=2)

    clock_of(app).advance(3600)
    answer = app.approve(run.id, by="ann", comment="go ahead")
    assert (answer.approved, answer.by, answer.comment) == (True, "ann", "go ahead")
    assert answer.at == clock_of(app).now()
    assert app.approvals() == []
    drain(app).check()
    assert run.refresh().result == answer
    assert bool(run.result)


@pytest.mark.parametrize("make", [deploys, deploys_in_thread])
def test_no_is_an_answer_too(app: Windlass, make: Any) -> None:
    run = make(app).enqueue()
    drain(app)
    run.reject("approval", comment="not on a Friday")
    drain(app).check()
    result = run.refresh().result
    assert (result.approved, result.comment, result.by) == (False, "not on a Friday", None)
    assert not result


@pytest.mark.parametrize("make", [deploys, deploys_in_thread])
def test_nobody_answers_in_time(app: Windlass, make: Any) -> None:
    run = make(app, expires="2d").enqueue()
    start = clock_of(app).now()
    drain(app, until="3d").check()
    result = run.refresh().result
    assert (result.approved, result.expired, bool(result)) == (False, True, False)
    assert result.at - start >= timedelta(days=2)
    with pytest.raises(IllegalTransition):
        app.approve(run.id)


def test_the_first_answer_wins_and_the_same_again_is_returned(app: Windlass) -> None:
    run = deploys(app).enqueue()
    drain(app)
    first = run.approve(by="ann")
    clock_of(app).advance(60)
    assert app.approve(run.id, "approval", by="ann") == first
    for other in ({"by": "bob"}, {"by": "ann", "comment": "now"}):
        with pytest.raises(ApprovalClosed, match="was approved by ann before"):
            app.approve(run.id, **other)
    with pytest.raises(ApprovalClosed):
        app.reject(run.id, by="ann")
    drain(app).check()
    assert app.approve(run.id, by="ann") == first  # the run has ended by it
    assert run.refresh().result == first


def test_which_question_is_meant(app: Windlass) -> None:
    @app.job
    async def release(ctx: Context) -> list[bool]:
        first = await ctx.approval("Build?")
        both = [
            bool(await ctx.approval("Deploy?", name="deploy")),
            bool(await ctx.approval("Announce?")),
        ]
        return [bool(first), *both]

    run = release.enqueue()
    drain(app)
    with pytest.raises(ApprovalNotFound, match="no approval 'deploy'"):
        app.approve(run.id, "deploy")
    app.approve(run.id)
    drain(app)
    app.reject(run.id)
    drain(app)
    assert [one.name for one in app.approvals()] == ["approval#2"]
    app.approve(run.id, "approval#2")
    drain(app).check()
    assert run.refresh().result == [True, False, True]


def test_several_at_once_need_a_name(app: Windlass) -> None:
    @app.job
    async def release(ctx: Context) -> str:
        won = await ctx.first(
            tech=ctx.approval("Tech?", name="tech"), legal=ctx.approval("Legal?", name="legal")
        )
        return f"{won.name} {won.value.by}"

    run = release.enqueue()
    drain(app)
    with pytest.raises(BadOption, match="asks for several: legal, tech"):
        app.approve(run.id)
    app.approve(run.id, "legal", by="ann")
    drain(app).check()
    assert run.refresh().result == "legal ann"


def test_a_token_is_made_once_and_answers_by_itself(app: Windlass) -> None:
    told: list[ApprovalRequest] = []

    @app.job(retry=Retry.fixed("1s"))
    async def deploy(ctx: Context) -> bool:
        return bool(await ctx.approval("Deploy?", name="deploy", notify=told.append))

    run = deploy.enqueue()
    with crash_after(app, "notify"):
        drain(app, until="1h")
    (request,) = told
    assert (request.run, request.name, request.question) == (run.id, "deploy", "Deploy?")
    assert len(request.token) == 32
    stored = repr(run.steps()) + repr(run.events()) + repr(run.signals())
    assert request.token not in stored
    with pytest.raises(BadToken):
        app.approve(run.id, "deploy", token="guessed")
    app.approve(run.id, "deploy", token=request.token)
    drain(app).check()
    assert run.refresh().result is True


def test_who_is_told_may_be_async_and_is_tried_again(app: Windlass) -> None:
    tokens: list[str] = []

    async def mail(request: ApprovalRequest) -> None:
        tokens.append(request.token)
        if len(tokens) == 1:
            raise ConnectionError("no mail today")

    @app.job(retry=Retry.fixed("1s"))
    async def deploy(ctx: Context) -> bool:
        return bool(await ctx.approval("Deploy?", notify=mail))

    run = deploy.enqueue()
    drain(app, until="1h")
    assert len(tokens) == len(set(tokens)) == 2
    with pytest.raises(BadToken):
        run.approve(token=tokens[0])  # that mail was not sent
    run.approve(token=tokens[1])
    drain(app).check()
    assert run.refresh().result is True


def test_a_thread_cannot_await_who_is_told(app: Windlass) -> None:
    async def mail(request: ApprovalRequest) -> None: ...

    run = deploys_in_thread(app, notify=mail).enqueue()
    drain(app)
    assert run.refresh().error is not None
    assert "it is async, and its handler is not" in run.error.message


@pytest.mark.parametrize("bad", ["", 7, "x" * 2_001])
def test_a_question_is_text(app: Windlass, bad: Any) -> None:
    @app.job(max_attempts=1)
    async def deploy(ctx: Context) -> bool:
        return bool(await ctx.approval(bad))

    run = deploy.enqueue()
    drain(app)
    assert run.refresh().status is Status.FAILED


def test_bad_answers(app: Windlass) -> None:
    run = deploys(app).enqueue()
    drain(app)
    for given in ({"by": ""}, {"by": "x" * 201}, {"comment": "\0"}, {"name": ""}, {"token": ""}):
        with pytest.raises(BadOption):
            app.approve(run.id, **given)
    with pytest.raises(ApprovalNotFound):
        app.approve(run.id, "other")
    with pytest.raises(RunNotFound):
        app.approve(NOBODY)


def test_the_kit_answers(app: Windlass) -> None:
    run = deploys(app).enqueue()
    with answer_approval(app, approved=False, by="ann"):
        drain(app).check()
    assert (run.refresh().result.approved, run.result.by) == (False, "ann")


async def test_answers_in_async_code(app: Windlass) -> None:
    run = await deploys(app).aenqueue()
    await adrain(app)
    assert [one.run for one in await app.aapprovals()] == [run.id]
    await app.aapprove(run.id, by="ann")
    await adrain(app)
    assert (await run.arefresh()).result.by == "ann"
