"""A waiting run that is changed, a failed one retried with another input, and runs run again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.app.test_by_name import store_jobs
from tests.fixtures.apps import PATIENCE, opened, working
from windlass import (
    BadArguments,
    BadDuration,
    BadOption,
    EventType,
    IllegalTransition,
    Run,
    RunExpires,
    RunNotFound,
    Status,
    UnknownJob,
    Windlass,
)

LATER = datetime(2090, 1, 1, tzinfo=UTC)


@pytest.fixture
def greet(app: Windlass) -> Any:
    """A job that greets whomever it is told to, and cannot greet nobody."""

    @app.job(max_attempts=1, queue="mail", expires="1d")
    async def greet(name: str, times: int = 1) -> str:
        if not name:
            raise ValueError("nobody to greet")
        return " ".join([name] * times)

    return greet


async def done(app: Windlass, *runs: Run) -> None:
    """Let a worker do all that there is to do."""
    async with working(app) as worker:
        await worker.drained()
    for run in runs:
        run.refresh()


# -- change -----------------------------------------


async def test_a_waiting_run_is_changed(app: Windlass, greet: Any) -> None:
    run = await greet.using(delay="1h", tags=["a"]).aenqueue("Ada")
    due = run.due_at

    assert run.change(input={"name": "Bob", "times": 2}) is run
    await run.achange(tags=["b"], timeout="5s")
    app.change(run.id, expires=LATER)
    changed = await app.achange(run.id, deadline="2d")

    assert (changed.status, changed.input) == ("scheduled", {"name": "Bob", "times": 2})
    assert (changed.tags, changed.due_at, changed.expires_at) == (("b",), due, LATER)
    assert changed.deadline_at is not None
    assert changed.record.options is not None
    assert changed.record.options.timeout == 5.0
    assert [event.type for event in run.events()][1:] == [EventType.CHANGED] * 4
    run.reschedule(delay=0)
    await done(app, run)
    assert (run.status, run.result) == ("succeeded", "Bob Bob")


def test_none_takes_a_time_away(greet: Any) -> None:
    run = greet.using(deadline="1h", timeout="5s").enqueue("Ada")
    run.change(expires=None, deadline=None, timeout=None, tags=[])
    assert (run.expires_at, run.deadline_at, run.tags) == (None, None, ())
    assert run.record.options is None


async def test_the_input_is_checked_by_the_handler(greet: Any) -> None:
    run = greet.enqueue("Ada")
    wrong: list[tuple[Any, str]] = [
        ({"name": 7}, "got a wrong name: expected `str`, got `int`"),
        ({"nam": "Ada"}, "needs the argument name"),
        ({"name": "Ada", "loud": True}, "has no argument 'loud'"),
        (["Ada"], "by name, as a dict"),
    ]
    for input, why in wrong:
        with pytest.raises(BadArguments, match=why):
            run.change(input=input)
        with pytest.raises(BadArguments, match=why):
            await run.achange(input=input)
    assert (run.refresh().input, len(run.events())) == ({"name": "Ada"}, 1)


async def test_without_the_handler_the_names_are_checked(
    app: Windlass, greet: Any, url: str
) -> None:
    run = greet.enqueue("Ada")
    async with opened(url) as other:
        with pytest.raises(UnknownJob):
            other.change(run.id, input={"name": "Bob"})
        other.change(run.id, tags=["a"])  # for which the job need not be known
        store_jobs(app)
        with pytest.raises(BadArguments, match="has no argument 'loud'"):
            await other.achange(run.id, input={"name": "Bob", "loud": True})
        other.change(run.id, input={"name": "Bob"})
    await done(app, run)
    assert run.result == "Bob"


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({}, "change"),
        ({"queue": "other"}, "queue"),
        ({"tags": "a"}, "tags"),
        ({"tags": None}, "tags"),
        ({"timeout": 0}, "timeout"),
        ({"expires": datetime(2030, 1, 1)}, "expires"),  # noqa: DTZ001
        ({"input": None}, "input"),
    ],
)
def test_a_bad_change_is_refused(greet: Any, changes: dict[str, Any], option: str) -> None:
    run = greet.enqueue("Ada")
    with pytest.raises(BadOption) as caught:
        run.change(**changes)
    assert caught.value.option == option
    with pytest.raises(BadDuration):
        run.change(deadline="soon")
    assert len(run.events()) == 1


async def test_a_run_that_does_not_wait_is_refused_with_what_to_do(
    app: Windlass, greet: Any
) -> None:
    succeeded, failed = greet.enqueue("Ada"), greet.enqueue("")
    await done(app)
    canceled = greet.enqueue("Ada").cancel()
    for run, status, advice in (
        (succeeded, "succeeded", "Run it again as a new run"),
        (failed, "failed", "Retry it with another input, or run it again as a new run"),
        (canceled, "canceled", "Retry it with another input, or run it again as a new run"),
    ):
        with pytest.raises(IllegalTransition) as caught:
            run.change(tags=["a"])
        assert str(caught.value) == (
            f"Run {run.id} is {status}: change is for runs that wait. {advice}."
        )
    with pytest.raises(RunNotFound):
        app.change("nobody", input={"name": "Ada"})


def test_a_run_is_not_given_a_time_before_it_can_start(greet: Any) -> None:
    run = greet.using(delay="1h", expires=None).enqueue("Ada")
    with pytest.raises(RunExpires, match="a later expiry or deadline"):
        run.change(expires="59m")
    assert run.refresh().expires_at is None


def test_a_key_stands_for_the_input_that_was_enqueued(greet: Any) -> None:
    run = greet.using(key="k").enqueue("Ada").change(input={"name": "Bob"})
    again = greet.using(key="k").enqueue("Ada")
    assert (again.id, again.created, again.input) == (run.id, False, {"name": "Bob"})


async def test_many_runs_are_changed_at_once(app: Windlass, greet: Any) -> None:
    runs = [greet.enqueue("Ada") for _ in range(3)]
    runs[0].cancel()
    chosen = app.select(job="greet")

    assert chosen.change(tags=["a"], expires=None, dry_run=True).done == 2
    result = chosen.change(tags=["a"], expires=None)
    assert (await chosen.achange(deadline=LATER)).done == 2

    assert (result.done, result.refused) == (2, {})
    found = [(run.tags, run.expires_at, run.deadline_at) for run in app.select(tag="a")]
    assert found == [(("a",), None, LATER)] * 2
    for wrong in ({}, {"input": {"name": "Bob"}}, {"queue": "other"}):
        with pytest.raises(BadOption):
            chosen.change(**wrong)


# -- retry with another input -----------------------------------------


async def test_a_failed_run_is_retried_with_another_input(app: Windlass, greet: Any) -> None:
    run, other = greet.enqueue(""), greet.enqueue("")
    await done(app, run)

    with pytest.raises(BadArguments):
        run.retry(input={"name": 7})
    assert run.refresh().status is Status.FAILED
    run.retry(input={"name": "Bob"})
    await app.aretry(other.id, input={"name": "Eve"}, max_attempts=3)

    assert run.events()[-1].data == {"input": {"from": {"name": ""}, "to": {"name": "Bob"}}}
    await done(app, run, other)
    assert (run.status, run.result, run.attempt) == ("succeeded", "Bob", 2)
    assert other.result == "Eve"


# -- run again -----------------------------------------


async def test_an_ended_run_is_run_again_as_a_new_one(app: Windlass, greet: Any) -> None:
    old = greet.using(
        queue="slow", priority=7, tags=["a"], metadata={"by": "me"}, max_attempts=3,
        timeout="5s", key="k", unique="live", trace="t-1", deadline="1h",
    ).enqueue("Ada", times=2)  # fmt: skip
    await done(app, old)
    record = old.record

    new = old.run_again()

    assert (new.id != old.id, new.created, new.again_of) == (True, True, old.id)
    assert (new.job, new.input, new.queue, new.priority) == ("greet", old.input, "slow", 7)
    assert (new.tags, new.metadata, new.trace, new.key) == (("a",), {"by": "me"}, "t-1", None)
    options = app.get(new.id).record.options
    assert options is not None
    assert (options.max_attempts, options.timeout, options.unique) == (3, 5.0, None)
    assert new.deadline_at is None
    assert new.expires_at == new.created_at + timedelta(days=1), "as the job says"
    assert old.refresh().record == record
    await done(app, new)
    assert (new.result, new.to_dict()["again_of"]) == ("Ada Ada", old.id)
    assert old.to_dict()["again_of"] is None


async def test_the_input_and_the_options_may_be_others(app: Windlass, greet: Any) -> None:
    old = greet.enqueue("")
    await done(app, old)

    first = await old.arun_again(input={"name": "Bob"}, key="k", tags=["b"], delay="1h")
    again = app.run_again(old.id, input={"name": "Bob"}, key="k")
    with pytest.raises(BadArguments, match="got a wrong name"):
        await app.arun_again(old.id, input={"name": 7})

    assert (first.input, first.key, first.tags) == ({"name": "Bob"}, "k", ("b",))
    assert (first.status, first.again_of) == ("scheduled", old.id)
    assert (again.id, again.created) == (first.id, False)


async def test_an_input_that_does_not_fit_any_more_is_refused(app: Windlass, url: str) -> None:
    async with opened(url) as before:

        @before.job(name="greet")
        async def old_greet(who: str) -> str:
            return who

        old = old_greet.enqueue("Ada")
        await done(before, old)

    @app.job
    async def greet(name: str) -> str:
        return name

    with pytest.raises(BadArguments, match="needs the argument name"):
        app.run_again(old.id)
    assert app.run_again(old.id, input={"name": "Ada"}).again_of == old.id


def test_a_run_that_has_not_ended_is_not_run_again(app: Windlass, greet: Any) -> None:
    run = greet.enqueue("Ada")
    with pytest.raises(IllegalTransition) as caught:
        run.run_again()
    assert str(caught.value) == (
        f"Run {run.id} is queued: run_again is for runs that have ended. "
        "Change it instead, or cancel it first."
    )
    with pytest.raises(RunNotFound):
        app.run_again("nobody")


async def test_the_result_of_a_new_run_has_the_type_of_the_old(app: Windlass) -> None:
    @app.job
    async def when() -> datetime:
        return LATER

    old = when.enqueue()
    await done(app, old)
    new = old.run_again()
    await done(app, new)
    assert await app.aresult(new, timeout=PATIENCE) == LATER
    assert new.result == LATER
