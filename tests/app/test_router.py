"""Jobs on a router: usable once an application includes it, with a clear error before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fixtures.apps import PATIENCE, working
from windlass import BadArguments, BadOption, Context, DuplicateJob, Router, UsageError, Windlass


@pytest.fixture
def here(tmp_path: Path) -> Windlass:
    """An application that opens nothing."""
    return Windlass(f"sqlite:///{tmp_path}/never.db", max_attempts=9)


async def test_a_routers_jobs_run_once_it_is_included(app: Windlass) -> None:
    router = Router(prefix="mail", queue="post")

    @router.job
    async def welcome(ctx: Context, user: int) -> int:
        return user + int(ctx.resources.offset)

    @router.resource
    def offset() -> int:
        return 10

    urgent = welcome.using(priority=5)  # made before, and works afterwards
    app.include(router)
    async with working(app):
        run = await urgent.aenqueue(7)
        assert await app.aresult(run, timeout=PATIENCE) == 17
    assert (run.job, run.queue, run.priority) == ("mail.welcome", "post", 5)
    assert app.jobs["mail.welcome"] is welcome
    assert welcome.app is app is router.app


def test_before_that_a_job_is_a_function_with_a_clear_error() -> None:
    router = Router()

    @router.job
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert add(2) == 3
    assert (add.name, add.__doc__) == ("add", "Add.")
    told = (
        r"^Job 'add' is on a router, which no application has included yet: call "
        r"app.include\(router\) first. The job is defined in .*test_router\..*add \(line \d+\)\.$"
    )
    for use in (
        lambda: add.enqueue(1),
        lambda: add.using(delay=1).enqueue(1),
        lambda: add.request(1),
        lambda: asyncio.run(add.aenqueue(1)),
        lambda: add.app,
    ):
        with pytest.raises(UsageError, match=told):
            use()


def test_what_is_defined_after_the_inclusion_is_there_too(here: Windlass) -> None:
    router = Router()
    here.include(router)

    @router.job
    def late() -> None: ...

    @router.resource
    def pool() -> int:
        return 1

    router.schedule(late, interval="1h")

    assert here.jobs["late"] is late
    assert here.resource.openers == {"pool": pool}
    with pytest.raises(BadOption, match="two schedules have the key 'late'"):
        here.schedule(late, interval="2h")


def test_defaults_of_the_router_the_job_and_the_application(here: Windlass) -> None:
    plain, strict = Router(), Router(max_attempts=1, timeout="1m", executor="thread")

    @plain.job
    def one() -> None: ...

    @strict.job
    def two() -> None: ...

    @strict.job(max_attempts=3, timeout=None, name="zwei")
    def three() -> None: ...

    here.include(plain)
    here.include(strict)

    assert (one.spec.max_attempts, two.spec.max_attempts, three.spec.max_attempts) == (9, 1, 3)
    assert (two.spec.timeout, three.spec.timeout) == (60.0, None)
    assert list(here.jobs) == ["one", "two", "zwei"]


def test_mistakes_are_told_where_they_are_written(here: Windlass) -> None:
    with pytest.raises(BadOption, match="there is no such option; there are queue, priority"):
        Router(name="x")  # type: ignore[call-arg]
    with pytest.raises(BadOption, match="priority"):
        Router(priority=1_000_000)
    with pytest.raises(BadOption, match="prefix"):
        Router(prefix="two words")
    router = Router()
    with pytest.raises(BadOption, match="there is no such option"):
        router.job(que="x")(lambda_free)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="takes a job's name as an option"):
        router.job("name")  # type: ignore[call-overload]
    with pytest.raises(BadOption, match="give one of once=, interval= and cron="):
        router.schedule("other")

    @router.job
    def add(a: int) -> int:
        return a

    with pytest.raises(BadArguments):
        router.schedule(add, input={"b": 1}, interval="1h")
    with pytest.raises(BadOption, match="defined inside a function"):
        router.job(executor="process")(lambda_free)


def lambda_free() -> None:
    """Pretends to be inside a function."""


lambda_free.__qualname__ = "outer.<locals>.lambda_free"


def test_two_jobs_of_one_name_are_refused_and_nothing_changes(here: Windlass) -> None:
    @here.job
    def send() -> None: ...

    router = Router()

    @router.job
    def first() -> None: ...

    @router.job(name="send")
    def other() -> None: ...

    with pytest.raises(DuplicateJob) as caught:
        here.include(router)

    assert "Two jobs are named 'send'" in str(caught.value)
    assert ".send (line " in str(caught.value)
    assert ".other (line " in str(caught.value)
    assert list(here.jobs) == ["send"]
    assert router.app is None


def test_a_resource_of_the_same_name_is_refused(here: Windlass) -> None:
    @here.resource(name="db")
    def own() -> int:
        return 1

    router = Router()
    router.resource(name="db")(own)
    with pytest.raises(BadOption, match="two resources 'db'"):
        here.include(router)


def test_a_router_belongs_to_one_application(here: Windlass, tmp_path: Path) -> None:
    other = Windlass(f"sqlite:///{tmp_path}/other.db")
    router = Router()

    @router.job
    def tidy() -> None: ...

    @router.resource
    def db() -> int:
        return 1

    router.schedule(tidy, interval="1h")
    here.include(router)
    with pytest.raises(UsageError, match="has included <Router tidy> already"):
        here.include(router)
    with pytest.raises(UsageError, match="<Router tidy> belongs to another application"):
        other.include(router)

    other.include(router, take_over=True)

    assert (list(here.jobs), list(other.jobs)) == ([], ["tidy"])
    assert (list(here.resource.openers), list(other.resource.openers)) == ([], ["db"])
    assert tidy.app is other
    here.schedule("tidy", interval="1h")  # the key is free again


async def test_schedules_of_a_router_are_stored_by_a_worker(app: Windlass) -> None:
    router = Router(prefix="nightly")

    @router.job
    async def report(kind: str) -> None: ...

    router.schedule(report.using(queue="slow"), cron="0 3 * * *", input={"kind": "sales"})
    app.include(router)
    await app.schedules.announce()
    (stored,) = await app.schedules.alist()
    assert (stored.key, stored.job, stored.input) == (
        "nightly.report", "nightly.report", {"kind": "sales"},
    )  # fmt: skip
