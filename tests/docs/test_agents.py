"""The page on durable agents: its examples, run, with models that answer without a network."""

from __future__ import annotations

import pytest

from tests.docs.conftest import Load
from tests.fixtures.pages import Examples
from windlass import Context, Status, Windlass
from windlass.testing import crash_after, drain, isolated

AGENTS = "docs/agents.md"


@pytest.mark.examples(AGENTS, "support.py")
def test_an_agent_answers_over_crashes(load: Load) -> None:
    page = load("support.py")
    run = page.answer.enqueue(question="Where is it?")
    with (
        crash_after(page.app, "support.model_request"),
        crash_after(page.app, "support.tool.find_order"),
    ):
        drain(page.app).check()
    assert run.refresh().result == '{"find_order":1}'
    assert [step.path.partition("#")[0] for step in run.steps()].count(
        "support.tool.find_order"
    ) == 1


@pytest.mark.examples(AGENTS, "terms.py")
def test_tools_have_terms_of_their_own(examples: Examples) -> None:
    agent = examples.run("terms.py")["agent"]
    with isolated(Windlass()) as app:

        @app.job
        async def work(ctx: Context) -> str:
            return str((await agent.run("go")).output)

        run = work.enqueue()
        drain(app).check()
        assert run.refresh().result == '{"charge":"charged 0","add":0}'
        names = [step.path.partition("#")[0] for step in run.steps()]
    assert sorted(set(names)) == ["support.model_request", "support.tool.charge"]


@pytest.mark.examples(AGENTS, "refunds.py")
def test_people_decide_on_refunds(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    page = load("refunds.py")
    runs = [page.help_customer.enqueue(question="Money back!") for _ in range(2)]
    drain(page.app)
    assert [run.refresh().status for run in runs] == [Status.WAITING] * 2
    page.app.approve(runs[0].id, by="ann")
    drain(page.app, until="3d").check()
    assert [run.refresh().result for run in runs] == [
        '{"refund":"order 0 is refunded"}',
        '{"refund":"Nobody has answered in time whether this may be done: it was not done."}',
    ]
    asked = 'May the agent call refund with {"order":0}?'
    assert capsys.readouterr().out.splitlines() == [asked, asked]


@pytest.mark.examples(AGENTS, "chat.py")
def test_a_conversation_goes_on_for_as_long_as_there_are_questions(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    page = load("chat.py")
    run = page.chat.enqueue(history=[])
    for n in range(3):
        run.signal("question", f"number {n}")
    drain(page.app, until="8d").check()
    assert run.refresh().result == 6
    assert capsys.readouterr().out == "success (no tool calls)\n" * 3
    assert len(run.generations()) == 3


@pytest.mark.examples(AGENTS, "test_support.py")
def test_an_agent_is_tested_with_another_model(load: Load, examples: Examples) -> None:
    names = examples.run("test_support.py")
    assert names["run"].result == "It is on its way."
