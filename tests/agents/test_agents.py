"""Durable agents under the virtual clock: what is recorded, and what a replay sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelMessagesTypeAdapter, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset

from tests.agents.kit import Script, agent_of, answers, call, paths, prompts
from windlass import Context, ContinueAs, Failure, Retry, Status, SyncContext, Windlass
from windlass.contrib.pydantic_ai import Approvals, StepOptions, WindlassDurability
from windlass.errors import BadOption
from windlass.testing import SimulatedCrash, answer_approval, crash_after, drain

REFUSED = "People were asked, and do not want this to be done."


class Booking(BaseModel):
    """What an agent returns."""

    day: date
    seats: int


@dataclass
class Found:
    """What a tool returns: no JSON by nature."""

    at: datetime
    days: set[date]


def test_what_is_recorded_never_runs_again_and_looks_the_same(app: Windlass) -> None:
    model = Script(
        [call("look", "a")],
        [call("look", "b")],
        [call("final_result", "c", day="2030-01-02", seats=2)],
    )
    agent = agent_of(model, output_type=Booking)
    looks: list[int] = []
    seen: list[Any] = []

    @agent.tool
    async def look(ctx: RunContext[None]) -> Found:
        looks.append(ctx.run_step)
        return Found(datetime(2030, 1, 1, tzinfo=UTC), {date(2030, 1, 2)})

    @app.job
    async def book(ctx: Context) -> Any:
        result = await agent.run("book")
        messages = result.all_messages()
        responses = [each for each in messages if isinstance(each, ModelResponse)]
        ids = {(each.run_id, each.conversation_id) for each in messages}
        seen.append((responses, answers(messages), ids, result.usage, result.output))
        if ctx.attempt == 3:
            raise ConnectionError("once more")
        return result.output

    run = book.enqueue()
    with (
        crash_after(app, "support.model_request"),
        crash_after(app, "support.tool.look"),
    ):
        drain(app, with_scheduled=True).check()

    assert run.refresh().result == {"day": "2030-01-02", "seats": 2}
    assert (model.requests, looks) == ({0: 1, 1: 1, 2: 1}, [1, 2])
    assert paths(run) == [
        "support.model_request", "support.model_request#2", "support.model_request#3",
        "support.tool.look#1.a", "support.tool.look#2.b",
    ]  # fmt: skip
    assert len(seen) == 2
    assert seen[0] == seen[1], "the last attempt saw what the one before it saw"


class Overtaking(AbstractCapability[None]):
    """In the first attempt the first call of a tool begins last; in a replay, first."""

    def __init__(self) -> None:
        self.gone_before = asyncio.Event()

    async def before_tool_execute(
        self, ctx: RunContext[None], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        if call.tool_call_id == "a":
            await self.gone_before.wait()
        return args


def test_calls_that_overtake_each_other_keep_their_answers(app: Windlass) -> None:
    overtaking = Overtaking()
    model = Script([call("price", "a", of="tea"), call("price", "b", of="rum")], "")
    agent = agent_of(model, overtaking)
    asked: list[str] = []

    @agent.tool_plain
    async def price(of: str) -> str:
        asked.append(of)
        overtaking.gone_before.set()
        return f"{of}: {len(of)}"

    @app.job
    async def shop(ctx: Context) -> list[str]:
        result = await agent.run("prices")
        if ctx.attempt == 1:
            raise SimulatedCrash
        return answers(result.all_messages())

    run = shop.enqueue()
    drain(app).check()
    assert (run.refresh().result, asked) == (["tea: 3", "rum: 3"], ["rum", "tea"])


def test_ids_that_a_model_uses_again_are_told_apart(app: Windlass) -> None:
    agent = agent_of(Script([call("count", "call_0")], [call("count", "call_0")], ""))
    counted: list[int] = []

    @agent.tool_plain
    def count() -> int:
        counted.append(1)
        return len(counted)

    @app.job
    async def twice() -> str:
        return str((await agent.run("count")).output)

    run = twice.enqueue()
    with crash_after(app, "support.tool.count"):
        drain(app).check()
    assert run.refresh().result == "1 2"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"approved": True, "by": "ann"}, "refunded 7"),
        ({"approved": False, "comment": "too much"}, f"{REFUSED} They said: too much"),
        (None, "Nobody has answered in time whether this may be done: it was not done."),
    ],
)  # fmt: skip
def test_people_are_asked_and_the_run_waits_without_a_seat(
    app: Windlass, said: dict[str, Any] | None, told: str
) -> None:
    model = Script([call("look", "a"), call("refund", "b", order=7)], "")
    agent = agent_of(model, Approvals(expires="2d", notify=lambda request: asked.append(request)))
    asked: list[Any] = []
    done: list[str] = []

    @agent.tool_plain
    async def look() -> str:
        done.append("look")
        return "seen"

    @agent.tool_plain(requires_approval=True)
    async def refund(order: int) -> str:
        done.append("refund")
        return f"refunded {order}"

    @app.job
    async def help_out() -> str:
        return str((await agent.run("money back")).output)

    run = help_out.enqueue()
    drain(app)
    assert run.refresh().status is Status.WAITING
    assert [each.question for each in asked] == ['May the agent call refund with {"order":7}?']
    if said is None:
        drain(app, until="3d").check()
    else:
        given = {**said}
        (app.approve if given.pop("approved") else app.reject)(run.id, **given)
        drain(app).check()
    assert run.refresh().result == f"seen {told}"
    assert done == (["look", "refund"] if told == "refunded 7" else ["look"])
    assert model.requests == {0: 1, 1: 1}


def test_a_tool_that_asks_for_approval_itself_runs_again_when_it_has_it(app: Windlass) -> None:
    agent = agent_of(Script([call("pay", "a", sum=900)], ""), Approvals())
    tries: list[bool] = []

    @agent.tool
    async def pay(ctx: RunContext[None], sum: int) -> str:
        tries.append(ctx.tool_call_approved)
        if sum > 500 and not ctx.tool_call_approved:
            raise ApprovalRequired
        return f"paid {sum}"

    @app.job
    async def settle() -> str:
        return str((await agent.run("pay")).output)

    run = settle.enqueue()
    with answer_approval(app, "support.approve.pay"), crash_after(app, "support.tool.pay", times=2):
        drain(app).check()
    assert (run.refresh().result, tries) == ("paid 900", [False, True])


def test_steps_are_tried_as_their_options_say_and_a_long_pause_takes_no_seat(app: Windlass) -> None:
    model = Script([call("flaky", "a"), call("wrong", "b"), call("plain", "c")], "")
    durability: WindlassDurability[Any] = WindlassDurability(
        tool_options=StepOptions(max_attempts=1), model_options=StepOptions(timeout="1m")
    )
    agent = agent_of(model, durability=durability)
    tries: list[str] = []
    own = StepOptions(retry=Retry.fixed("2h", jitter=0), max_attempts=3)

    @agent.tool_plain(metadata={"windlass": own})
    async def flaky() -> str:
        tries.append("flaky")
        if len(tries) < 6:
            raise ConnectionError("no answer")
        return "at last"

    @agent.tool_plain(retries=1)
    async def wrong() -> str:
        tries.append("wrong")
        return "never mind"

    @agent.tool_plain(metadata={"windlass": False})
    async def plain() -> str:
        tries.append("plain")
        return "no step"

    @app.job
    async def work() -> str:
        return str((await agent.run("go")).output)

    run = work.enqueue()
    drain(app)
    assert run.refresh().status is Status.SCHEDULED
    drain(app, until="5h").check()
    assert run.refresh().result == "at last never mind no step"
    assert (tries.count("flaky"), tries.count("wrong"), tries.count("plain")) == (3, 1, 3)
    assert model.requests == {0: 1, 1: 1}


@pytest.mark.parametrize(
    ("error", "requests", "after"),
    [
        (ModelHTTPError(401, "m"), 1, None),
        (ModelHTTPError(500, "m"), 3, 10),
        (ModelHTTPError(429, "m", headers={"retry-after": "600"}), 3, 600),
    ],
)
def test_a_model_that_refuses_is_asked_again_if_that_can_help(
    app: Windlass, error: Exception, requests: int, after: int | None
) -> None:
    model = Script(error)
    agent = agent_of(model)

    @app.job(max_attempts=3, retry=Retry.fixed("10s", jitter=0))
    async def ask() -> str:
        return str((await agent.run("hi")).output)

    run = ask.enqueue()
    drain(app)
    step = run.steps()[0]
    assert (step.until is None) if after is None else (step.until is not None)
    if step.until is not None:
        assert (step.until - step.at).total_seconds() == pytest.approx(after)
    drain(app, with_scheduled=True)
    assert run.refresh().status is Status.FAILED
    assert run.failure is (Failure.FATAL if after is None else Failure.EXHAUSTED)
    assert model.requests == {0: requests}
    assert run.error is not None
    assert "support.model_request" in run.error.message


def test_what_is_no_json_fails_its_step_at_once(app: Windlass) -> None:
    agent = agent_of(Script([call("make", "a")], ""))
    made: list[object] = []

    @agent.tool_plain
    async def make() -> Any:
        made.append(object())
        return made[-1]

    @app.job
    async def work() -> str:
        return str((await agent.run("go")).output)

    run = work.enqueue()
    drain(app, with_scheduled=True)
    assert (run.refresh().status, run.failure, len(made)) == (Status.FAILED, Failure.FATAL, 1)


def test_a_retry_that_the_model_is_asked_for_is_recorded_as_such(app: Windlass) -> None:
    agent = agent_of(Script([call("pick", "a", n=1)], [call("pick", "b", n=2)], ""))
    picked: list[int] = []

    @agent.tool_plain(retries=2)
    async def pick(n: int) -> str:
        picked.append(n)
        if n == 1:
            raise ModelRetry("another one")
        return f"picked {n}"

    @app.job
    async def work() -> str:
        return str((await agent.run("go")).output)

    run = work.enqueue()
    with crash_after(app, "support.tool.pick", times=2):
        drain(app).check()
    assert (run.refresh().result, picked) == ("another one picked 2", [1, 2])


def test_runs_of_one_agent_at_the_same_time_do_not_mix(app: Windlass) -> None:
    requests: list[str] = []

    async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = prompts(messages)[0]
        requests.append(asked)
        if asked == "first" and len(requests) < 3:
            await asyncio.sleep(0)  # so that the second is recorded before
        return ModelResponse(parts=[TextPart(f"{asked} answer")])

    agent: Agent[None, str] = Agent(
        FunctionModel(model), name="support", capabilities=[WindlassDurability()]
    )
    ids: list[list[str | None]] = []

    @app.job
    async def both(ctx: Context) -> list[str]:
        found = await asyncio.gather(
            agent.run("first"), agent.run("second"), agent.run("third", run_id="my own")
        )
        ids.append([each.run_id for each in found])
        if ctx.attempt == 1:
            raise SimulatedCrash
        return [each.output for each in found]

    run = both.enqueue()
    drain(app).check()
    assert run.refresh().result == ["first answer", "second answer", "third answer"]
    assert sorted(requests) == ["first", "second", "third"]
    assert paths(run) == [
        "support(2).model_request", "support(my_own).model_request", "support.model_request"
    ]  # fmt: skip
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3


def test_a_long_conversation_goes_on_with_an_empty_history_of_steps(app: Windlass) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(f"answer {len(prompts(messages))}")])

    agent = agent_of(model)

    @app.job(max_steps=2)
    async def chat(ctx: Context, left: int, history: list[Any]) -> Any:
        before = ModelMessagesTypeAdapter.validate_python(history)
        result = await agent.run("and now?", message_history=before)
        assert len(result.new_messages()) == 2
        if not left:
            return result.output
        kept = ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json")
        return ContinueAs(left=left - 1, history=kept)

    run = chat.enqueue(left=3, history=[])
    drain(app).check()
    assert run.refresh().result == "answer 4"
    assert len(run.generations()) == 3


def test_an_agent_inside_a_tool_goes_on_where_it_was(app: Windlass) -> None:
    inner_model = Script([call("dig", "x")], "found it")
    outer_model = Script([call("research", "a")], "")
    inner = agent_of(inner_model, name="researcher")
    outer = agent_of(outer_model)
    dug: list[int] = []
    tries: list[int] = []

    @inner.tool_plain
    async def dig() -> str:
        dug.append(1)
        return "earth"

    @outer.tool_plain(metadata={"windlass": StepOptions(retry=Retry.fixed("0s"))})
    async def research() -> str:
        found = (await inner.run("dig")).output
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("cannot tell anybody")
        return str(found)

    @app.job
    async def work() -> str:
        return str((await outer.run("go")).output)

    run = work.enqueue()
    with crash_after(app, "researcher.tool.dig"):
        drain(app).check()
    assert run.refresh().result == "found it"
    assert (dug, len(tries)) == ([1], 2)
    assert (inner_model.requests, outer_model.requests) == ({0: 1, 1: 1}, {0: 1, 1: 1})
    assert "support.tool.research#1.a/researcher.tool.dig#1.x" in paths(run)


def test_tool_listings_and_events_are_steps_and_streams_replay(app: Windlass) -> None:
    requests: list[int] = []
    heard: list[str] = []
    listed: list[int] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Any:
        requests.append(len(messages))
        if not answers(messages):
            yield {0: DeltaToolCall(name="ping", json_args="{}", tool_call_id="a")}
        else:
            for word in ("it ", "says ", *answers(messages)):
                yield word

    async def hear(ctx: RunContext[None], events: AsyncIterable[Any]) -> None:
        heard.extend([event.event_kind async for event in events])

    async def pings(ctx: RunContext[None]) -> FunctionToolset[None]:
        listed.append(ctx.run_step)
        return FunctionToolset([ping])

    async def ping() -> str:
        return "pong"

    agent: Agent[None, str] = Agent(
        FunctionModel(stream_function=stream),
        name="support",
        capabilities=[WindlassDurability(event_stream_handler=hear)],
        toolsets=[DynamicToolset(pings, id="pings")],
    )

    @app.job
    async def work() -> str:
        async with agent.iter("go") as run:
            async for _ in run:
                pass
        assert run.result is not None
        return run.result.output

    run = work.enqueue()
    with crash_after(app, "support.model_request", times=1), crash_after(app, "support.event"):
        drain(app).check()
    assert run.refresh().result == "it says pong"
    assert len(requests) == 2
    assert heard.count("function_tool_call") == heard.count("function_tool_result") == 1
    assert "part_delta" in heard
    assert paths(run) == [
        "support.event#function_tool_call.a", "support.event#function_tool_result.a",
        "support.model_request", "support.model_request#2",
        "support.tool.ping#1.a", "support.tools.pings", "support.tools.pings#2",
    ]  # fmt: skip


def test_a_time_limit_counts_from_when_the_agent_first_began(app: Windlass) -> None:
    agent = agent_of(Script([call("nap", "a")], "done"))

    @agent.tool
    async def nap(ctx: RunContext[None]) -> None: ...

    @app.job
    async def work() -> str:
        return str((await agent.run("go", timeout=3600)).output)

    run = work.enqueue()
    with crash_after(app, "support.began"):
        drain(app).check()
    assert run.refresh().result == "done"
    assert "support.began" in paths(run)


async def test_outside_of_handlers_it_is_a_plain_agent() -> None:
    agent = agent_of(Script("hello"))
    assert (await agent.run("hi")).output == "hello"


@pytest.mark.parametrize("kind", ["sync", "thread"])
def test_a_handler_in_a_thread_is_told_what_to_do(app: Windlass, kind: str) -> None:
    agent = agent_of(Script("hello"))

    @app.job(name="sync", max_attempts=1)
    def in_thread(ctx: SyncContext) -> str:
        return str(asyncio.run(agent.run("hi")).output)

    @app.job(name="thread", max_attempts=1)
    async def beside(ctx: Context) -> str:
        return str((await asyncio.to_thread(asyncio.run, agent.run("hi"))).output)

    run = (in_thread if kind == "sync" else beside).enqueue()
    drain(app)
    assert run.refresh().status is Status.FAILED
    assert run.error is not None
    assert run.error.message == (
        f"The agent in job {kind!r} cannot be durable in a thread: make the handler `async def`, "
        "and call `await agent.run(…)` in it."
    )


def test_in_a_step_of_a_thread_an_agent_is_done_as_a_whole(app: Windlass) -> None:
    model = Script("hello")
    agent = agent_of(model)

    @app.job
    def ask(ctx: SyncContext) -> str:
        return ctx.step("ask", lambda: str(asyncio.run(agent.run("hi")).output))

    run = ask.enqueue()
    with crash_after(app, "ask"):
        drain(app).check()
    assert (run.refresh().result, model.requests) == ("hello", {0: 1})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tries": 3}, "'tries' is not one of retry, max_attempts, timeout, fatal"),
        ({"retry": 3}, "retry must be a Retry, such as Retry.exponential()"),
        (3, "it must be a dict of options, not int"),
    ],
)
def test_wrong_options_are_refused(options: Any, why: str) -> None:
    with pytest.raises(BadOption, match=why.replace("(", r"\(").replace(")", r"\)")):
        WindlassDurability(model_options=options)
