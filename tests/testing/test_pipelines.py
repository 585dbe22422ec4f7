"""Pipelines under the virtual clock: in order, each phase once, only what is unfinished again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from windlass import (
    BadOption,
    Context,
    Fail,
    Failure,
    Retry,
    Router,
    Run,
    Snooze,
    Status,
    SyncContext,
    UsageError,
    Windlass,
    phase,
)
from windlass.testing import answer, arun_job, clock_of, crash_after, drain, run_job, stand_in


@dataclass
class Film:
    url: str
    frames: int


class Studio:
    """Functions of three kinds of pipelines: blocking, async, and mixed."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails: dict[str, int] = {}

    def note(self, name: str) -> None:
        self.calls.append(name)
        if self.fails.get(name, 0) > 0:
            self.fails[name] -= 1
            raise ConnectionError(f"no {name}")

    def functions(self, kind: str) -> list[Callable[..., Any]]:
        def download(ctx: SyncContext, url: str) -> Film:
            self.note("download")
            ctx.progress(0.5, "half")
            return Film(url, ctx.step("count", self.count))

        async def adownload(ctx: Context, url: str) -> Film:
            self.note("download")
            await ctx.progress(0.5, "half")
            return Film(url, await ctx.step("count", self.count))

        def process(download: Film, quality: int = 2) -> str:
            self.note("process")
            return f"{download.url}:{download.frames * quality}"

        async def aprocess(download: Film, quality: int = 2) -> str:
            return process(download, quality)

        def upload(ctx: SyncContext, process: str) -> list[str]:
            self.note("upload")
            return [process, ctx.phases["download"].result.url]

        async def aupload(ctx: Context, process: str) -> list[str]:
            self.note("upload")
            return [process, ctx.phases["download"].result.url]

        chosen: dict[str, list[Callable[..., Any]]] = {
            "blocking": [download, process, upload],
            "async": [adownload, aprocess, aupload],
            "mixed": [download, aprocess, upload],
        }
        for function, name in zip(chosen[kind], ("download", "process", "upload"), strict=True):
            function.__name__ = name
        return chosen[kind]

    def count(self) -> int:
        self.note("count")
        return 21


@pytest.fixture
def studio() -> Studio:
    return Studio()


KINDS = ("blocking", "async", "mixed")
ONCE = ["download", "count", "process", "upload"]


def statuses(run: Run) -> list[str]:
    return [each.status.value for each in run.phases()]


@pytest.mark.parametrize("kind", KINDS)
def test_phases_run_in_order_with_the_results_of_those_before(
    app: Windlass, studio: Studio, kind: str
) -> None:
    transcode = app.pipeline("transcode", *studio.functions(kind))
    run = transcode.enqueue("film.mov")
    assert [(p.name, p.status.value) for p in run.phases()] == [
        ("download", "pending"), ("process", "pending"), ("upload", "pending"),
    ]  # fmt: skip
    drain(app).check()

    assert run.refresh().result == ["film.mov:42", "film.mov"]
    assert studio.calls == ONCE
    assert (run.progress, run.phase) == (1.0, "upload")
    assert statuses(run) == ["succeeded"] * 3
    kinds = {step.path: step.kind.value for step in run.steps()}
    assert kinds == dict.fromkeys(("download", "process", "upload"), "phase") | {
        "download/count": "step"
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dies", ["download", "process", "upload"])
def test_a_crash_repeats_nothing_that_is_recorded(
    app: Windlass, studio: Studio, kind: str, dies: str
) -> None:
    transcode = app.pipeline("transcode", *studio.functions(kind))
    run = transcode.enqueue(url="film.mov", quality=3)
    with crash_after(app, dies):
        drain(app).check()

    assert run.refresh().result == ["film.mov:63", "film.mov"]
    assert run.crash_count == 1
    assert studio.calls == ONCE
    assert (run.progress, statuses(run)) == (1.0, ["succeeded"] * 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_phase_that_fails_is_tried_again_and_those_before_are_not(
    app: Windlass, studio: Studio, kind: str
) -> None:
    first, second, third = studio.functions(kind)
    again = phase("process", second, retry=Retry.fixed("1h", jitter=0), max_attempts=2)
    transcode = app.pipeline("transcode", first, again, third)
    studio.fails["process"] = 3
    run = transcode.enqueue("film.mov")

    drain(app)
    found = run.refresh().phases()
    assert [p.status.value for p in found] == ["succeeded", "retrying", "pending"]
    assert (run.progress, run.status) == (1 / 3, Status.SCHEDULED)
    assert found[1].error is not None
    assert found[1].error.message == "no process"

    drain(app, until="2h")
    assert (run.refresh().status, run.failure) == (Status.FAILED, Failure.EXHAUSTED)
    assert statuses(run) == ["succeeded", "failed", "pending"]
    assert studio.calls == ["download", "count", "process", "process"]

    run.retry()  # by an operator: what is done stays done
    studio.fails["process"] = 0
    drain(app).check()
    assert statuses(run.refresh()) == ["succeeded"] * 3
    assert studio.calls == ["download", "count", "process", "process", "process", "upload"]


@pytest.mark.parametrize("kind", KINDS)
def test_phases_sleep_and_wait_without_a_seat(app: Windlass, kind: str) -> None:
    calls: list[str] = []

    def rest(ctx: SyncContext) -> str:
        calls.append("rest")
        ctx.progress(0.25, "going to bed")
        ctx.sleep("night", "8h")
        return str(ctx.wait_for("alarm"))

    async def arest(ctx: Context) -> str:
        calls.append("rest")
        await ctx.progress(0.25, "going to bed")
        await ctx.sleep("night", "8h")
        return str(await ctx.wait_for("alarm"))

    def rise(rest: str) -> str:
        calls.append("rise")
        return rest

    async def arise(rest: str) -> str:
        return rise(rest)

    first = phase("rest", arest if kind == "async" else rest)
    day = app.pipeline("day", first, phase("rise", rise if kind == "blocking" else arise))
    run = day.enqueue()

    drain(app)
    assert (run.refresh().status, run.waits) == (Status.SCHEDULED, ("rest/night",))
    assert [(p.status.value, p.progress, p.message) for p in run.phases()] == [
        ("waiting", 0.25, "going to bed"), ("pending", 0.0, None),
    ]  # fmt: skip
    clock_of(app).advance("8h")
    drain(app)
    assert (run.refresh().status, run.waits) == (Status.WAITING, ("rest/alarm",))
    with answer(app, "alarm", "ring"):
        run.signal("alarm", "ring")
        drain(app).check()
    assert run.refresh().result == "ring"
    assert calls == ["rest", "rest", "rest", "rise"]


def test_a_thread_that_swallows_its_suspension_is_suspended_all_the_same(app: Windlass) -> None:
    calls: list[str] = []

    def first(ctx: SyncContext) -> str:
        calls.append("first")
        try:
            ctx.sleep("night", "8h")
        except BaseException:  # noqa: BLE001 - that is the point
            return "swallowed"
        return "slept"

    async def second(first: str) -> str:
        return first

    run = app.pipeline("stubborn", first, second).enqueue()
    drain(app)
    assert run.refresh().status is Status.SCHEDULED
    clock_of(app).advance("8h")
    drain(app).check()
    assert run.refresh().result == "slept"


def test_declared_steps_are_steps_in_every_kind_of_phase(app: Windlass) -> None:
    calls: list[str] = []

    @app.step
    def plain() -> str:
        calls.append("plain")
        return "plain"

    @app.step
    async def awaited() -> str:
        calls.append("awaited")
        return "awaited"

    def one() -> str:
        return plain()

    async def two(one: str) -> list[str]:
        return [one, await awaited()]

    run = app.pipeline("declared", one, two).enqueue()
    drain(app).check()
    assert run.refresh().result == ["plain", "awaited"]
    assert sorted(s.path for s in run.steps()) == ["one", "one/plain", "two", "two/awaited"]


def test_the_results_have_the_types_that_the_functions_return(app: Windlass) -> None:
    def make() -> Film:
        return Film("a", 1)

    def look(ctx: SyncContext, make: Film) -> bool:
        given: object = make
        return isinstance(given, Film) and bool(ctx.phases["make"].result == given)

    run = app.pipeline("typed", make, look).enqueue()
    with crash_after(app, "make"):
        drain(app).check()
    assert run.refresh().result is True


def test_a_phase_may_snooze_or_fail_the_run(app: Windlass) -> None:
    calls: list[str] = []

    def first() -> int:
        calls.append("first")
        return 1

    def second(first: int) -> object:
        calls.append("second")
        return Snooze("1h") if len(calls) == 2 else Fail("enough")

    run = app.pipeline("lazy", first, second).enqueue()
    drain(app)
    assert (run.refresh().status, run.record.waiting_for) == (Status.SCHEDULED, "snooze")
    drain(app, until="2h")
    assert (run.refresh().status, run.failure) == (Status.FAILED, Failure.FATAL)
    assert calls == ["first", "second", "second"]


def test_results_by_name_only_of_phases_before(app: Windlass) -> None:
    def first(ctx: SyncContext) -> list[str]:
        with pytest.raises(UsageError, match="Phase 'second' has no result by now"):
            _ = ctx.phases["second"]
        return list(ctx.phases)

    def second(ctx: SyncContext) -> list[str]:
        return list(ctx.phases)

    run = app.pipeline("names", first, second).enqueue()
    drain(app).check()
    assert run.refresh().result == ["first"]


def test_options_of_jobs_a_router_and_the_testing_kit(app: Windlass) -> None:
    def greet(name: str) -> str:
        return f"Hello, {name}"

    def shout(greet: str) -> str:
        return greet.upper()

    router = Router(prefix="shop", queue="mail")
    job = router.pipeline("hail", greet, shout, max_attempts=7, default_input={"name": "you"})
    app.include(router)
    assert (job.name, job.spec.queue, job.spec.max_attempts) == ("shop.hail", "mail", 7)
    run = job.enqueue()
    drain(app).check()
    assert run.refresh().result == "HELLO, YOU"
    assert run_job(job, "Ada") == "HELLO, ADA"
    with stand_in(app, "greet", returns="oh"):
        run = job.enqueue("Ada")
        drain(app).check()
    assert run.refresh().result == "OH"


async def test_in_async_code(app: Windlass) -> None:
    async def one(n: int) -> int:
        return n + 1

    async def two(one: int) -> int:
        return one * 10

    job = app.pipeline("sums", one, two)
    assert await arun_job(job, 4) == 50
    run = await job.aenqueue(1)
    assert [p.name for p in await run.aphases()] == ["one", "two"]
    assert [p.name for p in await app.aphases(run.id)] == ["one", "two"]


def test_the_phases_of_a_job_that_is_not_defined_here(app: Windlass) -> None:
    """Its definition is stored, with the names."""

    def one() -> None: ...

    def two() -> None: ...

    job = app.pipeline("elsewhere", one, two)
    app.store.run(app.store.operations.sync_jobs([job.spec.row("default")]))
    run = job.enqueue()
    app.jobs.remove([job])
    assert [(p.name, p.status.value) for p in app.phases(run.id)] == [
        ("one", "pending"), ("two", "pending"),
    ]  # fmt: skip


def test_a_job_without_phases_has_the_one_phase_run(app: Windlass) -> None:
    @app.job
    def work(ctx: SyncContext) -> None:
        ctx.progress(0.5, "half")

    run = work.enqueue()
    assert statuses(run) == ["pending"]
    drain(app).check()
    [only] = run.phases()
    assert (only.name, only.status, only.progress, only.message) == (
        "run", "succeeded", 1.0, "half",
    )  # fmt: skip


def test_units_are_written_with_the_end(app: Windlass) -> None:
    def load(ctx: SyncContext) -> None:
        for n in range(100):
            ctx.units(done=n, total=200)

    async def send(ctx: Context) -> None:
        await ctx.units(done=3, failed=1, total=4)

    run = app.pipeline("units", load, send).enqueue()
    drain(app).check()
    assert run.refresh().units is not None
    assert str(run.units) == "4 of 4 units, 1 failed"
    assert run.progress == 1.0


def test_a_phase_that_takes_something_else_now_is_the_same_phase(app: Windlass) -> None:
    """What it is given comes from the run and from other phases; so new code may take other parts
    of it, and a phase that is done stays done."""

    def first(n: int) -> int:
        return n

    def other(n: int, m: int = 0) -> int:
        raise AssertionError("it is done")

    def stop(first: int) -> Snooze:
        return Snooze("1h")

    def go_on(first: int) -> int:
        return first

    old = app.pipeline("deployed", first, phase("last", stop))
    run = old.enqueue(7)
    drain(app)
    app.jobs.remove([old])
    app.pipeline("deployed", phase("first", other), phase("last", go_on))
    drain(app, until="2h").check()
    assert run.refresh().raw_result == 7


def nothing() -> None: ...


def positional(first: int, /) -> None: ...


def extra(**kwargs: Any) -> None: ...


def wants_later(second: int) -> None: ...


def wants_text(n: str) -> None: ...


def wants_number(n: int) -> None: ...


def one_default(n: int = 1) -> None: ...


def two_default(n: int = 2) -> None: ...


WRONG: list[tuple[Callable[[], list[Any]], str]] = [
    (list, "must have 1 to 100 phases"),
    (lambda: [nothing] * 101, "must have 1 to 100 phases"),
    (lambda: [nothing, nothing], "has two phases 'nothing'"),
    (lambda: [positional], "name what it is given"),
    (lambda: [extra], "name what it is given"),
    (lambda: [wants_later, phase("second", nothing)], "which does not come before it"),
    (lambda: [wants_text, wants_number], "they annotate it differently"),
    (lambda: [one_default, two_default], "they have different defaults"),
    (lambda: [phase("a/b", nothing)], "has a character that no name may have"),
    (lambda: [phase("a", 7)], "cannot be called"),  # type: ignore[arg-type]
    (lambda: [phase(nothing, nothing)], "give the name first"),
    (lambda: [phase(nothing, timeout="1s")], "a thread cannot be stopped"),
    (lambda: [7], "cannot be called"),
]


@pytest.mark.parametrize(("phases", "why"), WRONG)
def test_what_cannot_be_a_pipeline_is_refused(
    app: Windlass, phases: Callable[[], list[Any]], why: str
) -> None:
    with pytest.raises(BadOption, match=why):
        app.pipeline("wrong", *phases())
    assert "wrong" not in app.jobs


def test_an_input_that_one_phase_needs_is_required(app: Windlass) -> None:
    job = app.pipeline("mixed", one_default, phase("two", wants_number))
    assert job.spec.signature.required == {"n"}
