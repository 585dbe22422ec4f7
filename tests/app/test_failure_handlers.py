"""Failure handlers: what an application defines, and what its workers do with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from tests.fixtures.apps import PATIENCE, hub_of, working
from windlass import (
    BadOption,
    Context,
    DuplicateJob,
    FailedRun,
    Fatal,
    Retry,
    Router,
    RunFailed,
    SyncContext,
    UsageError,
    Windlass,
)
from windlass.domain.failed import FailureHandler

T = TypeVar("T")


@pytest.fixture
def here(tmp_path: Path) -> Windlass:
    """An application that opens nothing."""
    return Windlass(f"sqlite:///{tmp_path}/never.db", max_attempts=9)


def handlers(app: Windlass) -> dict[str, FailureHandler | None]:
    """Who handles the failures of each job, as workers store it."""
    return {spec.name: spec.row("default").on_failure for spec in app.jobs.specs()}


def by(job: str, argument: str = "failed", **fields: object) -> FailureHandler:
    return FailureHandler(job=job, argument=argument, **fields)  # type: ignore[arg-type]


class Tales(Generic[T]):
    """What handlers tell the test, from whichever thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told: asyncio.Queue[T] = asyncio.Queue()

    def tell(self, tale: T) -> None:
        self._loop.call_soon_threadsafe(self._told.put_nowait, tale)

    async def next(self, within: float = PATIENCE) -> T:
        async with asyncio.timeout(within):
            return await self._told.get()

    @property
    def no_more(self) -> bool:
        return self._told.empty()


async def test_a_handler_runs_once_for_each_run_that_fails_for_good(app: Windlass) -> None:
    tales = Tales[tuple[FailedRun, Context]]()

    @app.job(max_attempts=2, retry=Retry.fixed("0s"))
    async def charge(order: int) -> None:
        raise ValueError(f"order {order}")

    @charge.on_failure
    async def refund(ctx: Context, failed: FailedRun) -> str:
        tales.tell((failed, ctx))
        return "refunded"

    async with working(app):
        run = await charge.using(tags=["vip"], trace="ab" * 16).aenqueue(7)
        failed, ctx = await tales.next()
        handler = await app.aget(ctx.run_id)
        assert await app.aresult(handler, timeout=PATIENCE) == "refunded"

    assert (failed.id, failed.job, failed.input) == (run.id, "charge", {"order": 7})
    assert (failed.failure, failed.attempts, failed.tags) == ("exhausted", 2, ("vip",))
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("ValueError", "order 7")
    assert "raise ValueError" in failed.error.traceback
    assert (handler.job, handler.enqueued_by) == ("charge.on_failure", run.id)
    assert handler.trace == run.trace
    assert refund.name == "charge.on_failure"
    assert tales.no_more


async def test_it_starts_at_once_and_not_with_the_next_poll(app: Windlass) -> None:
    tales = Tales[str]()

    @app.job
    def charge() -> None:
        raise Fatal("no")

    @app.on_failure
    def alarm(ctx: SyncContext, failed: FailedRun) -> None:
        tales.tell(failed.job)

    async with working(app, poll="20s", sweep="20s"):
        await charge.aenqueue()
        assert await tales.next(within=15.0) == "charge"


async def test_it_is_retried_like_any_job_and_has_no_handler_itself(app: Windlass) -> None:
    tales = Tales[Context]()

    @app.job
    def charge() -> None:
        raise Fatal("no")

    @app.on_failure(max_attempts=2, retry=Retry.fixed("0s"))
    async def alarm(ctx: Context, failed: FailedRun) -> None:
        tales.tell(ctx)
        raise ConnectionError("nobody there")

    async with working(app):
        await charge.aenqueue()
        seen = [await tales.next(), await tales.next()]
        run = await app.aget(seen[0].run_id)
        with pytest.raises(RunFailed):
            await app.aresult(run, timeout=PATIENCE)
    assert [ctx.attempt for ctx in seen] == [1, 2]
    assert len(await app.alist()) == 2


def test_the_nearest_handler_counts(here: Windlass) -> None:
    router = Router(prefix="mail")

    @here.on_failure(queue="alerts", priority=3)
    def alarm(failed: FailedRun) -> None: ...

    @here.job
    def plain() -> None: ...

    @here.job
    def special() -> None: ...

    @special.on_failure
    def other(run: FailedRun) -> None: ...

    @router.job
    def welcome() -> None: ...

    @router.job
    def goodbye() -> None: ...

    here.include(router)
    before = handlers(here)

    @router.on_failure
    def bounced(failed: FailedRun) -> None: ...

    @goodbye.using(priority=2).on_failure(name="sorry")
    def missed(failed: FailedRun) -> None: ...

    for_all = by("alarm", queue="alerts", priority=3)
    assert before == {
        "alarm": None, "plain": for_all, "special": by("special.on_failure", "run"),
        "special.on_failure": None, "mail.welcome": for_all, "mail.goodbye": for_all,
    }  # fmt: skip
    assert handlers(here) == before | {
        "mail.welcome": by("mail.bounced"), "mail.goodbye": by("mail.sorry"),
        "mail.bounced": None, "mail.sorry": None,
    }  # fmt: skip


def test_a_routers_handlers_come_with_it_under_the_names_of_the_application(
    tmp_path: Path,
) -> None:
    router = Router(queue="post", max_attempts=2, tags=["t"])

    @router.job
    def welcome() -> None: ...

    @welcome.on_failure
    def bounced(failed: FailedRun) -> None: ...

    @router.on_failure(name="lost")
    def lost(failed: FailedRun) -> None: ...

    apps = [Windlass(f"sqlite:///{tmp_path}/{n}.db", names=n) for n in ("function", "module")]
    apps[0].include(router)
    assert bounced.name == "welcome.on_failure"
    apps[1].include(router, take_over=True)

    name = f"{__name__}.welcome"
    assert handlers(apps[0]) == {}
    assert handlers(apps[1]) == {
        name: by(f"{name}.on_failure"), f"{name}.on_failure": None, "lost": None,
    }  # fmt: skip
    assert bounced.name == f"{name}.on_failure"
    # The defaults of the router's runs are not those of runs that the store makes.
    assert (bounced.spec.max_attempts, bounced.spec.defaults) == (2, None)


def test_one_handler_may_be_for_several_jobs(here: Windlass) -> None:
    @here.job
    def a() -> None: ...

    @here.job
    def b() -> None: ...

    @a.on_failure
    @b.on_failure(name="either")
    def either(failed: FailedRun) -> None: ...

    assert handlers(here) == {"a": by("either"), "b": by("either"), "either": None}
    assert here.jobs["either"] is either


def test_job_files_have_the_handler_of_the_application(here: Windlass, tmp_path: Path) -> None:
    (tmp_path / "backup.py").write_text("def run(ctx): ...\n")

    @here.on_failure
    def alarm(failed: FailedRun) -> None: ...

    assert here.jobs.load(tmp_path) == []
    assert handlers(here) == {"alarm": None, "backup": by("alarm")}
    with pytest.raises(UsageError, match=r"'backup' is a job file.*on_failure into the file"):
        here.jobs["backup"].on_failure(alarm)


def test_what_cannot_be_a_handler_is_refused_and_leaves_nothing(here: Windlass) -> None:
    @here.job
    def job() -> None: ...

    @here.job
    def ordinary(failed: FailedRun) -> None: ...

    def nothing() -> None: ...
    def plain(failed) -> None: ...  # type: ignore[no-untyped-def]
    def two(failed: FailedRun, more: int = 1) -> None: ...
    def rest(failed: FailedRun, **more: int) -> None: ...
    def text(failed: str) -> None: ...
    def good(failed: FailedRun) -> None: ...

    for wrong in (nothing, plain, two, rest, text):
        with pytest.raises(BadOption, match="one argument that is annotated with FailedRun"):
            job.on_failure(wrong)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="tags"):
        job.on_failure(tags=["a"])  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="'ordinary' is an ordinary job"):
        job.on_failure(ordinary)
    with pytest.raises(DuplicateJob):
        job.on_failure(name="ordinary")(good)
    assert handlers(here) == {"job": None, "ordinary": None}

    handler = job.on_failure(good)
    with pytest.raises(UsageError, match="'job' has a failure handler already"):
        job.on_failure(name="x")(good)
    with pytest.raises(UsageError, match="is a failure handler, and those have no handlers"):
        handler.on_failure(name="x")(good)
    with pytest.raises(UsageError, match="defined already: its options belong there"):
        ordinary.on_failure(queue="x")(handler)
    here.on_failure(handler)
    with pytest.raises(UsageError, match="There is a handler for all failures already"):
        here.on_failure(name="x")(good)
    assert list(handlers(here)) == ["job", "ordinary", "job.on_failure"]


async def test_a_worker_that_runs_learns_of_a_new_handler(app: Windlass) -> None:
    tales = Tales[str]()

    @app.job
    def charge() -> None:
        raise Fatal("no")

    async with working(app) as worker:
        with hub_of(worker).roster.stored.heard() as stored:

            @app.on_failure
            def alarm(failed: FailedRun) -> None:
                tales.tell(failed.id)

            await stored.next()
        run = await charge.aenqueue()
        assert await tales.next() == run.id
