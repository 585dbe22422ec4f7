"""Middleware around attempts: in threads, on the loop, and in child processes alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.apps import working
from tests.isolation.conftest import Load
from windlass import BadOption, RunFailed, Windlass, testing

MIDDLEWARE = """
@app.middleware
def outer(ctx):
    say(f"outer:{ctx.job}:{ctx.attempt}")
    try:
        yield
    except KeyError:
        say("saw")
        raise
    finally:
        say("/outer")


@app.middleware
async def inner(ctx):
    await asyncio.sleep(0)
    say("inner")
    yield
    say("/inner")


@app.job(max_attempts=1)
def in_thread(fails: bool = False):
    say(f"handler:{threading.get_ident()}")
    if fails:
        raise KeyError("broken")

@app.job(max_attempts=1)
async def on_loop(fails: bool = False):
    say(f"handler:{id(asyncio.current_task())}")
    if fails:
        raise KeyError("broken")

@app.job(max_attempts=1, executor="process")
def in_child(fails: bool = False):
    say(f"handler:{threading.get_ident()}")
    if fails:
        raise KeyError("broken")

@app.job(max_attempts=1, executor="process")
async def on_childs_loop(fails: bool = False):
    say(f"handler:{id(asyncio.current_task())}")
    if fails:
        raise KeyError("broken")
"""
SYNC, ASYNC = ["in_thread", "in_child"], ["on_loop", "on_childs_loop"]
Said = Callable[[], list[str]]

# The store has no part in it.
pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def words(said: Said) -> list[str]:
    return [word.partition(":")[0] for word in said()]


@pytest.mark.parametrize("job", SYNC + ASYNC)
async def test_it_encloses_the_handler(load: Load, said: Said, job: str) -> None:
    jobs = load(MIDDLEWARE)
    async with working(jobs.app):
        run = await getattr(jobs, job).aenqueue()
        await jobs.app.aresult(run.id, timeout="20s")
    inside = ["inner", "handler", "/inner"] if job in ASYNC else ["handler"]
    assert words(said) == ["outer", *inside, "/outer"]
    assert said()[0] == f"outer:{job}:1"


@pytest.mark.parametrize("job", SYNC + ASYNC)
async def test_it_sees_what_the_handler_raises(load: Load, said: Said, job: str) -> None:
    jobs = load(MIDDLEWARE)
    async with working(jobs.app):
        run = await getattr(jobs, job).aenqueue(fails=True)
        with pytest.raises(RunFailed, match="broken"):
            await jobs.app.aresult(run.id, timeout="20s")
    assert words(said)[-2:] == ["saw", "/outer"]


@pytest.mark.parametrize("job", SYNC + ASYNC)
async def test_one_that_raises_ends_the_attempt(load: Load, said: Said, job: str) -> None:
    jobs = load(
        MIDDLEWARE + "\n@app.middleware\n"
        "def refusing(ctx):\n    raise KeyError('refused')\n    yield\n"
    )
    async with working(jobs.app):
        run = await getattr(jobs, job).aenqueue()
        with pytest.raises(RunFailed, match="refused"):
            await jobs.app.aresult(run.id, timeout="20s")
    assert "handler" not in words(said)
    assert words(said)[-1] == "/outer"


async def test_copy_that_a_handler_forks_leaves_none(load: Load, said: Said) -> None:
    jobs = load(
        MIDDLEWARE + "\n@app.job(max_attempts=1)\n"
        "def fork():\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        assert os.waitpid(child, 0)[1] == 0\n"
    )
    async with working(jobs.app):
        run = await jobs.fork.aenqueue()
        await jobs.app.aresult(run.id, timeout="20s")
    assert words(said).count("/outer") == 1


@pytest.mark.parametrize("job", ["in_thread", "on_loop"])
async def test_it_encloses_attempts_of_the_testing_kit(load: Load, said: Said, job: str) -> None:
    jobs = load(MIDDLEWARE)
    with testing.isolated(jobs.app):
        await testing.arun_job(getattr(jobs, job))
    assert (words(said)[0], words(said)[-1]) == ("outer", "/outer")


@pytest.mark.parametrize("job", ["in_thread", "on_loop"])
async def test_it_has_the_resources(load: Load, said: Said, job: str) -> None:
    jobs = load(
        f"{MIDDLEWARE}\n@app.resource\ndef box():\n    return 'open'\n\n"
        "@app.middleware\ndef looking(ctx):\n    say(ctx.resources.box)\n    yield\n"
    )
    async with working(jobs.app):
        run = await getattr(jobs, job).aenqueue()
        await jobs.app.aresult(run.id, timeout="20s")
    assert "open" in said()


def test_what_is_none_is_refused(url: str) -> None:
    app = Windlass(url)

    def plain(ctx: Any) -> None: ...

    def bare() -> Any:
        yield

    with pytest.raises(BadOption, match="plain has no yield"):
        app.middleware(plain)
    with pytest.raises(BadOption, match="bare must take one argument"):
        app.middleware(bare)
    assert app.middleware.around == []
