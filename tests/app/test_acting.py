"""Who acts: as the audit log has it."""

from __future__ import annotations

import asyncio
import getpass

import pytest

from windlass import Context, Windlass
from windlass.errors import BadOption
from windlass.testing import drain, isolated


@pytest.fixture
def app() -> Windlass:
    return Windlass()


def test_the_actor_is_who_was_named_or_the_user(app: Windlass) -> None:
    @app.job
    def work() -> None: ...

    with isolated(app):
        run = work.enqueue()
        with app.acting_as("ann"):
            run.pause()
            with app.acting_as("bob"):
                run.resume()
            run.signal("go")
        run.cancel()
        actors = [(entry.actor, entry.verb) for entry in app.audit()]
    assert actors == [
        (getpass.getuser(), "cancel"), ("ann", "signal"), ("bob", "resume"), ("ann", "pause"),
    ]  # fmt: skip


def test_a_handler_acts_as_its_run(app: Windlass) -> None:
    @app.job
    def work() -> None: ...

    @app.job
    async def ends(ctx: Context, other: str) -> None:
        await app.acancel(other)

    with isolated(app):
        other = work.using(delay="1h").enqueue()
        run = ends.enqueue(other.id)
        drain(app)
        (entry,) = other.audit()
    assert (entry.actor, entry.verb) == (f"run {run.id}", "cancel")


async def test_tasks_act_as_whoever_they_were_begun_for(app: Windlass) -> None:
    @app.job
    def work() -> None: ...

    async def pause(name: str) -> None:
        with app.acting_as(name):
            run = await work.aenqueue()
            await asyncio.sleep(0)
            await run.apause()

    with isolated(app):
        await asyncio.gather(*(pause(name) for name in ("ann", "bob", "eve")))
        assert {entry.actor for entry in await app.aaudit()} == {"ann", "bob", "eve"}


@pytest.mark.parametrize("name", ["", "x" * 201, 7, "a\x00b"])
def test_a_name_that_is_none_is_refused(app: Windlass, name: str) -> None:
    with pytest.raises(BadOption), app.acting_as(name):
        pass


def test_a_handler_sees_who_asked_for_its_run(app: Windlass) -> None:
    seen: list[str | None] = []

    @app.job
    async def work(ctx: Context) -> None:
        seen.append(ctx.asked_by)

    with isolated(app):
        with app.acting_as("ann"):
            named = work.using(max_attempts=3).enqueue()
        nobody = work.enqueue()
        drain(app)
        assert (named.refresh().asked_by, nobody.refresh().asked_by) == ("ann", None)
        assert named.record.options is not None
        assert named.record.options.max_attempts == 3
    assert seen == ["ann", None]
