"""Enqueueing by name: checked by the handler where it is, else by what its worker has stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.fixtures.apps import PATIENCE, opened, working
from windlass import (
    BadArguments,
    BadOption,
    BadPayload,
    PayloadTooLarge,
    Status,
    UnknownJob,
    UsageError,
    Windlass,
    WindlassError,
)
from windlass.domain.run import JobRow


def store_jobs(app: Windlass, *rows: JobRow) -> None:
    """Do what a worker does when it starts."""
    found = [job.spec.row("default") for job in app.jobs.values()] + list(rows)
    app.store.run(app.store.operations.sync_jobs(found))


def define(app: Windlass) -> None:
    """Jobs of various shapes."""

    @app.job(queue="mail", priority=4, max_attempts=2)
    async def greet(name: str, times: int = 1) -> str:
        return " ".join([name] * times)

    @app.job
    async def anything(first: int, **others: int) -> dict[str, int]:
        return {"first": first, **others}

    @app.job
    async def nothing() -> None: ...


async def test_by_name_with_the_handler_here(app: Windlass) -> None:
    define(app)
    sync = app.enqueue("greet", {"name": "Ada"}, priority=9, tags=["t"])
    run = await app.aenqueue("greet", {"name": "Ada", "times": 2})

    assert (sync.queue, sync.priority, sync.tags) == ("mail", 9, ("t",))
    assert (run.queue, run.priority, run.input) == ("mail", 4, {"name": "Ada", "times": 2})
    with pytest.raises(BadArguments, match="got a wrong name: expected `str`, got `int`"):
        app.enqueue("greet", {"name": 7})


async def test_by_name_without_the_handler(app: Windlass, url: str) -> None:
    define(app)
    async with working(app), opened(url) as other:
        seen = await app.aenqueue("nothing")
        await app.aresult(seen.id, timeout=10)  # the worker has begun, and stored its jobs
        first = other.enqueue("greet", {"name": "Ada"}, delay="1ms")
        second = await other.aenqueue("greet", {"name": "Bob", "times": 2})
        third = other.enqueue("anything", {"first": 1, "second": 2})

        assert first.queue == second.queue == "mail"
        assert first.priority == 4
        assert await other.aresult(first.id, timeout=10) == "Ada"
        assert await other.aresult(second.id, timeout=10) == "Bob Bob"
        assert await other.aresult(third.id, timeout=10) == {"first": 1, "second": 2}


async def test_what_is_stored_is_read_without_the_handler(app: Windlass, url: str) -> None:
    define(app)
    before = app.sources.now()
    async with opened(url) as other:
        assert (other.jobs.stored(), other.jobs.look_up("greet")) == ([], None)
        store_jobs(app)
        greet = other.jobs.look_up("greet")
        found = await other.jobs.astored()

        assert greet is not None
        assert greet == await other.jobs.alook_up("greet")
        assert (greet.queue, greet.priority, greet.max_attempts) == ("mail", 4, 2)
        assert [p["name"] for p in greet.parameters or ()] == ["name", "times"]
        assert abs(greet.created_at - before) < timedelta(seconds=PATIENCE)
        assert greet.created_at == greet.updated_at
        assert [job.name for job in found] == ["anything", "greet", "nothing"]
        assert greet in found
        assert greet.to_dict()["updated_at"].endswith("Z")
        assert (len(other.jobs), other.jobs.look_up("unheard")) == (0, None)


WHERE = "import the module that defines it, or start a worker that has it."
TOO_LARGE = (
    "The input of job 'greet' is 1,048,587 bytes of JSON and the limit is 1,048,576: "
    "store it elsewhere and pass a pointer."
)
WRONG: list[tuple[str, Any, type[WindlassError], str]] = [
    ("greet", {}, BadArguments, "Job 'greet' needs the argument name."),
    ("greet", None, BadArguments, "Job 'greet' needs the argument name."),
    (
        "greet",
        {"name": "Ada", "tims": 2},
        BadArguments,
        "Job 'greet' has no argument 'tims' (it takes: name, times).",
    ),
    ("nothing", {"a": 1}, BadArguments, "Job 'nothing' has no argument 'a' (it takes: none)."),
    ("anything", {"second": 1}, BadArguments, "Job 'anything' needs the argument first."),
    ("greet", ["Ada"], BadArguments, "Job 'greet' takes its arguments by name, as a dict."),
    ("greet", {1: "Ada"}, BadArguments, "Job 'greet' takes its arguments by name, as a dict."),
    (
        "greet",
        {"name": "a\0b"},
        BadPayload,
        "The input of job 'greet' cannot be stored at $.name: it has a NUL character.",
    ),
    (
        "greet",
        {"name": "a" * 1_048_576},
        PayloadTooLarge,
        TOO_LARGE,
    ),
    (
        "gret",
        {},
        UnknownJob,
        f"There is no job 'gret': {WHERE}",
    ),
    (
        "nul\0",
        {},
        UnknownJob,
        f"There is no job 'nul\\x00': {WHERE}",
    ),
    (
        "\ud800",
        {},
        UnknownJob,
        f"There is no job '\\ud800': {WHERE}",
    ),
    (
        "",
        {},
        UnknownJob,
        f"There is no job '': {WHERE}",
    ),
]


async def test_wrong_calls_are_refused_by_the_stored_job(
    app: Windlass, url: str, subtests: pytest.Subtests
) -> None:
    define(app)
    store_jobs(app)
    async with opened(url) as other:
        for job, given, error, text in WRONG:
            with subtests.test(ascii(job), given=ascii(given)[:40]):
                with pytest.raises(error) as sync:
                    other.enqueue(job, given)
                with pytest.raises(error) as twin:
                    await other.aenqueue(job, given)
                assert str(sync.value) == str(twin.value) == text
        assert other.list() == []


async def test_what_is_no_name_is_told_so(app: Windlass) -> None:
    wrong: list[Any] = [5, None, b"greet", ["greet"]]
    for job in wrong:
        with pytest.raises(UnknownJob):
            app.enqueue(job)
        with pytest.raises(UnknownJob):
            await app.aenqueue(job)


def test_unknown_job_suggests_one_that_is_near(app: Windlass) -> None:
    define(app)
    with pytest.raises(UnknownJob) as caught:
        app.enqueue("gret")
    assert str(caught.value) == "There is no job 'gret': did you mean 'greet'?"


def test_unknown_options_are_refused(app: Windlass, url: str) -> None:
    define(app)
    store_jobs(app)
    other = Windlass(url)
    wrong: Any = {"dely": "1s"}
    for enqueue in (app.enqueue, other.enqueue):
        with pytest.raises(BadOption, match="dely"):
            enqueue("greet", {"name": "Ada"}, **wrong)
    assert app.list() == []
    other.close()


def test_options_hold_without_the_handler(app: Windlass, url: str) -> None:
    define(app)
    store_jobs(app)
    other = Windlass(url)
    run = other.enqueue("greet", {"name": "Ada"}, key="k", delay="1h", queue="other", tags=["t"])
    again = other.enqueue("greet", {"name": "Ada"}, key="k")
    other.close()
    assert again.id == run.id
    found = app.get(run.id)
    assert (found.status, found.queue, found.key, found.tags) == (
        Status.SCHEDULED, "other", "k", ("t",),
    )  # fmt: skip


def test_default_input_is_for_calls_without_any(app: Windlass) -> None:
    row = JobRow(
        name="report",
        queue="default",
        parameters=({"name": "name", "required": True},),
        default_input=msgspec.Raw(b'{"name":"Zoe"}'),
    )
    store_jobs(app, row)
    assert app.enqueue("report").input == {"name": "Zoe"}
    assert app.enqueue("report", {"name": "Ada"}).input == {"name": "Ada"}
    with pytest.raises(BadArguments):
        app.enqueue("report", {})


def test_job_of_another_language_may_take_anything(app: Windlass) -> None:
    store_jobs(app, JobRow(name="foreign", queue="default", parameters=None))
    assert app.enqueue("foreign", {"a": {"b": [1]}}).input == {"a": {"b": [1]}}
    assert app.enqueue("foreign").input == {}


def test_default_input_of_a_definition_counts_here_and_elsewhere(app: Windlass, url: str) -> None:
    @app.job(default_input={"name": "Zoe"})
    async def report(name: str, day: str = "today") -> str:
        return f"{name} {day}"

    store_jobs(app)
    other = Windlass(url)
    for there in (app, other):
        assert there.enqueue("report").input == {"name": "Zoe"}
        assert there.enqueue("report", {"name": "Ada"}).input == {"name": "Ada"}
        with pytest.raises(BadArguments):
            there.enqueue("report", {})
        many = there.enqueue_many([("report", None), ("report", {"name": "Bo"})])
        assert [run.input for run in many] == [{"name": "Zoe"}, {"name": "Bo"}]
    other.close()
    assert report.using(delay="1h").enqueue("Kim").input == {"name": "Kim"}
    untyped: Any = report  # a type checker asks for what has no default in the function
    assert untyped.enqueue().input == {"name": "Zoe"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "a dict"),
        ({1: 2}, "a dict"),
        ({}, "needs the argument name"),
        ({"name": 7}, "wrong name"),
        ({"name": "x", "other": 1}, "other"),
        ({"name": "\ud800"}, "surrogate"),
        ({"name": "x" * 2_000_000}, "limit"),
    ],
)
def test_default_input_is_checked_when_it_is_written_down(
    app: Windlass, given: Any, why: str
) -> None:
    with pytest.raises(BadOption, match=why) as caught:

        @app.job(default_input=given)
        async def report(name: str) -> None: ...

    assert caught.value.option == "default_input"


def test_schedule_without_input_uses_the_default(app: Windlass) -> None:
    @app.job(default_input={"name": "Zoe"})
    async def report(name: str) -> None: ...

    schedule = app.schedules.put(report, interval="1h")
    run = app.schedules.trigger(schedule.id)
    assert run is not None
    assert run.input == {"name": "Zoe"}


def test_many_by_name_read_each_definition_once(
    app: Windlass, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job(queue="mail")
    async def greet(name: str) -> None: ...

    @app.job
    async def part(name: str) -> None: ...

    store_jobs(app)
    other = Windlass(url)

    @other.job
    async def here(n: int) -> None: ...

    asked = []
    real = other.store.run

    def run(call: Any) -> Any:
        asked.append(call.name)
        return real(call)

    monkeypatch.setattr(other.store, "run", run)
    runs = other.enqueue_many(
        [*(("greet", {"name": str(n)}) for n in range(5)), ("part", {"name": "x"}), here.request(1)]
    )
    other.close()
    assert [(r.job, r.queue) for r in runs] == [("greet", "mail")] * 5 + [
        ("part", "default"), ("here", "default"),
    ]  # fmt: skip
    assert len(asked) == 3  # two definitions, one batch


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (("greet", {"name": "x", "other": 1}), BadArguments),
        (("greet", [1]), BadArguments),
        (("gret", {}), UnknownJob),
        (("greet",), UsageError),
        ("greet", UsageError),
        ({"greet": {}}, UsageError),
    ],
)
async def test_one_bad_name_among_many_enqueues_nothing(
    app: Windlass, asked: Any, error: type[Exception]
) -> None:
    @app.job
    async def greet(name: str) -> None: ...

    with pytest.raises(error):
        await app.aenqueue_many([("greet", {"name": "a"}), asked])
    assert await app.alist() == []
