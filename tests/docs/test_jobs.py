"""The page on jobs and runs: each example is run, and does what the page says."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

import pytest

from tests.docs.conftest import Load
from tests.fixtures.pages import Examples
from windlass import Context, KeyTaken, Retry, Status
from windlass.testing import clock_of, drain, given, inline, run_job

JOBS = "docs/jobs.md"
POLICIES = "When it fails"


@pytest.mark.examples(JOBS, "tasks.py", "shop.py")
def test_runs_are_made_as_the_page_makes_them(load: Load) -> None:
    tasks = load("tasks.py")
    shop = load("shop.py")
    assert (shop.run.queue, shop.run.status) == ("mail", "queued")
    assert (shop.later.status, shop.later.priority, shop.later.tags) == ("scheduled", 5, ("vip",))
    done = drain(tasks.app).check()
    results = [run.result for run in done.runs]
    assert {"order 7 to Berlin, attempt 1", 7, "0.png", "99.png"} <= set(results)
    assert len(results) == 1 + 1 + 100
    assert shop.run.refresh().progress == 0.5
    assert shop.later.refresh().status == "scheduled"
    clock_of(tasks.app).advance("10m")
    assert [run.id for run in drain(tasks.app).check().runs] == [shop.later.id]


@pytest.mark.examples(JOBS, "tasks.py")
def test_handlers_are_functions_still(load: Load) -> None:
    tasks = load("tasks.py")
    assert asyncio.run(tasks.tidy_up(3)) == 3
    with pytest.raises(asyncio.CancelledError):
        run_job(tasks.resize, path="7.png", ctx=given(canceled=True))


@pytest.mark.examples(JOBS, "tasks.py", "refresh.py")
def test_live_key_is_taken_while_its_run_lives(load: Load) -> None:
    load("tasks.py")
    page = load("refresh.py")
    with pytest.raises(KeyTaken):
        page.once.retry()
    page.again.cancel()
    assert page.once.retry().status == "queued"


@pytest.mark.examples(JOBS, POLICIES)
def test_policies_wait_as_long_as_they_say(examples: Examples) -> None:
    examples.run(POLICIES)
    lines = [node for node in ast.parse(examples[POLICIES]).body if isinstance(node, ast.Expr)]
    made: list[Retry] = [eval(ast.unparse(line), {"Retry": Retry}) for line in lines[:-1]]  # noqa: S307

    def waits(policy: Retry, error: BaseException, *failures: int) -> list[float | None]:
        """Without the part that chance takes away."""
        return [policy.delay_for(n, error, random=0.0) for n in failures]

    broken, refused = ConnectionError(), PermissionError()
    default, fixed, linear, exponential, custom, never, fatal, after = made
    assert waits(default, broken, 1, 2, 3, 99) == [1, 2, 4, 3600]
    assert waits(fixed, broken, 1, 2) == [10, 10]
    assert waits(linear, broken, 1, 2, 3, 99) == [5, 10, 15, 60]
    assert waits(exponential, broken, 1, 2, 3, 99) == [2, 6, 18, 1800]
    assert exponential.delay_for(1, broken, random=1.0) == pytest.approx(2 * 0.8)
    assert waits(custom, broken, 1, 2, 3) == [60, 120, None]
    assert waits(never, broken, 1) == [None]
    assert (fatal.is_fatal(refused), fatal.is_fatal(broken)) == (True, False)
    assert waits(after, broken, 1) == [60]
    assert waits(after, refused, 1) == [10]


@pytest.mark.examples(JOBS, "tasks.py", "refunds.py")
def test_failure_handlers_are_called(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = load("tasks.py")
    load("refunds.py")
    limited = {"expires": "1m"}
    lost = tasks.send_parcel.using(**limited).enqueue(7, to=tasks.Address("Elm Street 1", "Berlin"))
    other = tasks.resize.using(**limited).enqueue(path="x")
    tasks.tidy_up.enqueue()
    clock_of(tasks.app).advance(61)
    done = {run.job: run for run in drain(tasks.app).succeeded}
    assert sorted(done) == ["alert", "send_parcel.on_failure", "tidy_up"]
    assert done["send_parcel.on_failure"].enqueued_by == lost.id
    assert (done["send_parcel.on_failure"].queue, done["alert"].queue) == ("mail", "alerts")
    assert capsys.readouterr().out == f"resize {other.id} expired\n"


@pytest.mark.examples(JOBS, "tasks.py", "around.py")
def test_middleware_goes_around_every_handler(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = load("tasks.py")
    load("around.py")
    runs = [tasks.tidy_up.enqueue(), tasks.resize.enqueue(path="7.png")]
    drain(tasks.app).check()
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in printed] == [[run.job, run.id] for run in runs]
    assert all(float(seconds) >= 0 for _, _, seconds in printed)


@pytest.mark.examples(JOBS, "tasks.py", "resources.py")
def test_handlers_share_a_resource(load: Load) -> None:
    tasks = load("tasks.py")
    load("resources.py")
    boxes: list[list[str]] = []

    async def post(ctx: Context, text: str) -> int:
        ctx.resources.outbox.append(text)
        boxes.append(ctx.resources.outbox)
        return len(ctx.resources.outbox)

    job = tasks.app.job(post)
    for text in ("a", "b"):
        job.enqueue(text)
    assert [run.result for run in drain(tasks.app).check().runs] == [1, 2]
    assert boxes == [[], []]  # one box, cleared when it was closed


@pytest.mark.examples(JOBS, "tasks.py", "desk.py")
def test_desk_lists_runs_and_acts_on_one(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = load("tasks.py")
    done = tasks.resize.enqueue(path="7.png")
    drain(tasks.app).check()
    page = load("desk.py")
    first, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{done.id} 7\.png \[.*succeeded.*\]", first)
    assert last == "queued"
    run = page.run.refresh()
    assert (run.input, run.tags, run.priority) == ({"days": 4}, ("spring",), 10)
    assert {"run.rescheduled", "run.changed", "run.canceled", "run.retried"} <= {
        event.type for event in run.events()
    }
    assert [attempt.outcome for attempt in page.oldest_first] == ["succeeded"]


@pytest.mark.examples(JOBS, "tasks.py", "second_try.py")
def test_runs_are_changed_retried_and_run_again(load: Load) -> None:
    tasks = load("tasks.py")
    page = load("second_try.py")
    assert page.run.refresh().status == "canceled"
    assert (page.again.status, page.again.priority) == ("queued", 5)
    assert [run.result for run in drain(tasks.app).check().runs] == ["9.png"]


@pytest.mark.examples(JOBS, "tasks.py", "many.py")
def test_many_runs_are_canceled_at_once(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = load("tasks.py")
    done = tasks.resize.enqueue(path="7.png")
    drain(tasks.app).check()
    late = [tasks.tidy_up.enqueue(), tasks.tidy_up.using(delay="1h").enqueue()]
    load("many.py")
    assert capsys.readouterr().out.splitlines() == [done.id, "2", "2", "2 {}"]
    assert {run.refresh().status for run in late} == {Status.CANCELED}


@pytest.mark.examples(JOBS, "tasks.py", "waiting.py")
def test_many_runs_are_waited_for(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = load("tasks.py")
    with inline(tasks.app):
        page = load("waiting.py")
    assert capsys.readouterr().out.splitlines() == ["succeeded"] * 3
    assert [run.result for run in page.ended] == ["0.png", "1.png", "2.png"]


@pytest.mark.examples(JOBS, "tasks.py", "answers.py")
def test_results_have_their_type(load: Load) -> None:
    load("tasks.py")
    page = load("answers.py")
    with inline(page.app):
        assert page.words_of(Path("a.png")) == 300
        run = page.scan.enqueue(Path("a.png"))
    assert run.result == page.Page(Path("a.png"), 300)
    assert page.app.get(run.id).result == run.raw_result == {"file": "a.png", "words": 300}
    assert page.scan.__doc__ == "Count the words of a scanned page."
