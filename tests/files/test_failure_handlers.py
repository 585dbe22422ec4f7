"""`on_failure` in a job file: a failure handler that comes, changes and goes with the file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.files.kit import GOOD, Folder
from tests.fixtures.apps import PATIENCE, hub_of, within, working
from windlass import DuplicateJob, FailedRun, Job, Run, Windlass, Worker
from windlass.domain.failed import FailureHandler

FAILS = "max_attempts = 1\nqueue = 'parcels'\ndef run(ctx, order=7):\n    raise OSError('no')\n"
TOLD = "from windlass import FailedRun\n"
HANDLES = f"{TOLD}def on_failure(ctx, failed: FailedRun):\n    return ['{{}}', failed.input]\n"


@pytest.fixture
def here(tmp_path: Path) -> Windlass:
    """An application that opens nothing."""
    return Windlass(f"sqlite:///{tmp_path}/never.db")


def handlers(app: Windlass) -> dict[str, str | None]:
    """The job that handles failures of each job, as workers store it."""
    rows = [spec.row("default") for spec in app.jobs.specs()]
    return {row.name: None if row.on_failure is None else row.on_failure.job for row in rows}


async def failed(app: Windlass) -> Run:
    """A run of `parcel` that has failed for good."""
    run = await app.aenqueue("parcel")
    await run.await_end(timeout=PATIENCE)
    assert run.status == "failed"
    return run


async def handled(app: Windlass, run: Run) -> Run:
    """The run that was made with the end of another; it is there by then."""
    (found,) = [other for other in await app.alist() if other.enqueued_by == run.id]
    return found


async def change(app: Windlass, worker: Worker) -> None:
    """Load the files; return when the store knows what they say."""
    with hub_of(worker).roster.stored.heard() as stored:
        app.jobs.reload()
        assert await stored.next() is None


async def test_the_handler_of_a_file_comes_changes_and_goes_while_the_worker_runs(
    folder: Folder, app: Windlass
) -> None:
    folder.write("parcel.py", FAILS)
    app.jobs.load()
    async with working(app) as worker:
        await within(worker.started)
        for word in ("refund", "call"):
            folder.write("parcel.py", FAILS + HANDLES.format(word))
            await change(app, worker)
            run = await failed(app)
            handler = await handled(app, run)
            assert await app.aresult(handler, timeout=PATIENCE) == [word, {}]
            await handler.arefresh()
            assert (handler.job, handler.queue) == ("parcel.on_failure", "parcels")
            assert handler.attempts[0].version == app.jobs["parcel"].spec.version
        folder.write("parcel.py", FAILS)
        await change(app, worker)
        run = await failed(app)
        assert [o.job for o in await app.alist() if o.enqueued_by == run.id] == []
    assert list(app.jobs) == ["parcel"]


async def test_the_files_own_handler_counts_more_than_the_applications(
    folder: Folder, app: Windlass
) -> None:
    @app.on_failure
    def alarm(failed: FailedRun) -> str:
        return "alarm"

    folder.write("parcel.py", FAILS + HANDLES.format("refund"))
    app.jobs.load()
    async with working(app) as worker:
        await within(worker.started)
        assert (await handled(app, await failed(app))).job == "parcel.on_failure"
        folder.write("parcel.py", FAILS)
        await change(app, worker)
        assert (await handled(app, await failed(app))).job == "alarm"


async def test_it_is_retried_as_job_files_are_and_has_no_handler_itself(
    folder: Folder, app: Windlass
) -> None:
    folder.write("parcel.py", f"{FAILS}{TOLD}async def on_failure(failed: FailedRun): 1 / 0\n")
    app.jobs.load()
    spec = app.jobs["parcel.on_failure"].spec
    assert (spec.max_attempts, spec.retry) == (3, app.jobs["parcel"].spec.retry)
    async with working(app):
        handler = await handled(app, await failed(app))
        async with asyncio.timeout(PATIENCE):
            while not (await handler.arefresh()).attempts:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert handlers(app) == {"parcel": "parcel.on_failure", "parcel.on_failure": None}


def test_a_broken_handler_keeps_the_last_good_file(folder: Folder, here: Windlass) -> None:
    folder.write("parcel.py", FAILS + HANDLES.format("refund"))
    assert here.jobs.load() == []
    good = here.jobs["parcel.on_failure"].spec
    folder.write("parcel.py", f"{FAILS}def on_failure(): ...\n")

    (error,) = here.jobs.reload()

    assert here.jobs["parcel.on_failure"].spec is good
    assert handlers(here) == {"parcel": "parcel.on_failure", "parcel.on_failure": None}
    assert [(job.name, job.error) for job in here.jobs.list()] == [
        ("parcel", error), ("parcel.on_failure", error),
    ]  # fmt: skip
    (folder.path / "parcel.py").unlink()
    assert here.jobs.reload() == []
    assert list(here.jobs) == []


def test_files_may_share_a_function(folder: Folder, here: Windlass) -> None:
    folder.write("_alerts.py", f"{TOLD}def on_failure(failed: FailedRun): ...\n")
    for file in ("a.py", "b/c.py"):
        folder.write(file, f"from jobs._alerts import on_failure\n{GOOD}")

    assert here.jobs.load() == []
    assert handlers(here) == {
        "a": "a.on_failure", "a.on_failure": None, "b.c": "b.c.on_failure", "b.c.on_failure": None,
    }  # fmt: skip


def test_a_file_may_name_a_handler_of_the_application(folder: Folder, tmp_path: Path) -> None:
    text = f"""{TOLD}from windlass import Windlass
app = Windlass("sqlite:///{tmp_path}/never.db")
@app.job
def other(): ...
@other.on_failure(queue="alerts", name="alarm")
def alarm(told: FailedRun): ...
"""
    folder.write("_tasks.py", text)
    folder.write("a.py", f"from ._tasks import app, alarm as on_failure\n{GOOD}")
    definition = folder.load()["a.py"].definition

    assert definition is not None
    assert definition.handler is None
    assert isinstance(definition.on_failure, Job)
    assert definition.on_failure.as_failure_handler == FailureHandler(
        job="alarm", argument="told", queue="alerts"
    )
    app = definition.on_failure.app
    assert app.jobs.load() == []
    assert handlers(app) == {
        "a": "alarm", "other": "alarm", "alarm": None,
    }  # fmt: skip


def test_none_is_no_handler(folder: Folder, here: Windlass) -> None:
    folder.write("a.py", f"on_failure = None\n{GOOD}")

    assert here.jobs.load() == []
    assert handlers(here) == {"a": None}


def test_two_jobs_of_the_handlers_name_are_an_error(folder: Folder, here: Windlass) -> None:
    folder.write("a.py", GOOD + HANDLES)
    assert here.jobs.load() == []
    with pytest.raises(DuplicateJob, match=r"'a\.on_failure': jobs@\d+\.a\.on_failure \(line 4"):
        here.job(name="a.on_failure")(lambda: None)
    folder.write("a/on_failure.py")

    (error,) = here.jobs.reload()

    assert error.file == str(folder.path.resolve() / "a.py")
    assert "its failure handler's name 'a.on_failure' is also that of" in error.why
    assert str(folder.path.resolve() / "a/on_failure.py") in error.why
    assert list(here.jobs) == ["a.on_failure"]
    assert here.jobs["a.on_failure"]._membership.handles is None
    (folder.path / "a/on_failure.py").unlink()
    assert here.jobs.reload() == []
    assert handlers(here) == {"a": "a.on_failure", "a.on_failure": None}


def test_a_job_in_code_that_has_the_handlers_name(folder: Folder, here: Windlass) -> None:
    folder.write("a.py", GOOD)
    here.jobs.load()
    coded = here.job(name="a.on_failure")(lambda: None)
    folder.write("a.py", GOOD + HANDLES)
    (error,) = here.jobs.reload()
    assert "'a.on_failure' is also that of" in error.why
    assert list(here.jobs) == ["a.on_failure", "a"]  # its last good version has no handler
    here.jobs.remove([coded])

    assert here.jobs.reload() == []
    assert handlers(here) == {"a": "a.on_failure", "a.on_failure": None}


def test_a_file_called_like_that_is_a_job_and_no_handler(folder: Folder, here: Windlass) -> None:
    folder.write("a.py", GOOD)
    folder.write("a/on_failure.py", f"from jobs import a\n{GOOD}")
    folder.write("b.py", f"from .a import on_failure as other\n{GOOD}")

    assert here.jobs.load() == []
    assert handlers(here) == {"a": None, "a.on_failure": None, "b": None}
