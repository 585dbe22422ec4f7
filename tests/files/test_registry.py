"""`app.jobs`: one registry for jobs of code and of files, and workers that see it change."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.files.kit import GOOD, Folder, appears
from tests.fixtures.apps import PATIENCE, within, working
from windlass import DuplicateJob, Job, JobFileError, Status, UnknownJob, UsageError, Windlass


def define(app: Windlass, name: str = "coded") -> None:
    @app.job(name=name)
    async def coded() -> str:
        return "from code"


async def result(app: Windlass, job: str) -> object:
    run = await app.aenqueue(job)
    return await app.aresult(run.id, timeout=PATIENCE)


def test_files_and_code_are_one_registry(folder: Folder, app: Windlass) -> None:
    define(app)
    folder.write("reports/daily.py", f"schedule = '0 3 * * *'\n{GOOD}")
    folder.write("bad.py", "\ndef run(:")

    (error,) = app.jobs.load()

    assert isinstance(error, JobFileError)
    assert sorted(app.jobs) == ["coded", "reports.daily"]
    assert isinstance(app.jobs["reports.daily"], Job)
    bad, coded, daily = app.jobs.list()
    assert (bad.name, bad.version, bad.error) == ("bad", None, error)
    assert (coded.name, coded.file, coded.schedule) == ("coded", None, None)
    assert (daily.name, daily.schedule, daily.error) == ("reports.daily", "0 3 * * *", None)
    assert {name: plan.cron for name, plan in app.jobs.plans().items()} == {
        "reports.daily": "0 3 * * *"
    }
    assert daily.file == folder.path.resolve() / "reports/daily.py"


def test_the_folder_may_be_named_and_missing(folder: Folder, app: Windlass, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "one.py").write_text(GOOD)

    assert app.jobs.load() == []
    assert list(app.jobs) == []
    assert app.jobs.load(tmp_path / "elsewhere") == []
    assert list(app.jobs) == ["one"]


def test_a_package_that_the_application_imports_has_no_job_files(
    folder: Folder, app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("mail.py", "def send(): ...\n")
    folder.write("__init__.py", "")
    assert [error.why for error in app.jobs.load()] == ["it has no `run`: write `def run(ctx):`"]
    monkeypatch.syspath_prepend(folder.path.parent)
    import_module("jobs.mail")
    try:
        assert app.jobs.load() == []
        assert app.jobs.list() == []
        assert app.jobs.reload() == []
        assert len(app.jobs.load(folder.path)) == 1  # somebody says that it has
        folder.path.parent.joinpath("windlass.toml").write_text("[windlass]\njobs = 'jobs'\n")
        assert len(Windlass(app.settings.url).jobs.load()) == 1
        folder.path.parent.joinpath("windlass.toml").write_text("")
        assert Windlass(app.settings.url).jobs.load() == []
    finally:
        del sys.modules["jobs"], sys.modules["jobs.mail"]


async def test_intervals_of_files_and_their_terms_are_stored_and_logged(
    folder: Folder, app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    define(app)
    folder.write("tidy.py", "interval = '10m'\ndefault_input = {'n': 7}\ndef run(ctx, n): ...\n")
    assert app.jobs.load() == []
    assert [job.schedule for job in app.jobs.list()] == [None, "every 10 m"]
    app.schedule("coded", interval="1h")

    with caplog.at_level("INFO", "windlass.schedules"):
        await app.schedules.announce()

    stored = await app.schedules.aget("file:tidy")
    assert stored.input == {"n": 7}
    assert stored.when.startswith("Every 10 m, ")
    terms = {r.schedule: (r.overlap, r.catch_up) for r in caplog.records}  # type: ignore[attr-defined]
    assert terms == {"coded": ("allow", "latest"), "file:tidy": ("skip", "skip")}


def test_a_name_taken_by_a_file(folder: Folder, app: Windlass) -> None:
    folder.write("coded.py")
    app.jobs.load()

    with pytest.raises(DuplicateJob, match=r"Two jobs are named 'coded': jobs@\d+\.coded\.run"):
        define(app)


def test_a_name_taken_by_code(folder: Folder, app: Windlass) -> None:
    define(app)
    folder.write("coded.py")
    (error,) = app.jobs.load()

    assert "its name 'coded' is also that of" in error.why
    assert app.jobs["coded"].spec.home is None


async def test_a_file_runs(folder: Folder, app: Windlass) -> None:
    folder.write("greet.py", "async def run(ctx, name='you'):\n    return f'Hello, {name}'")
    folder.write("slow.py", "def run(ctx):\n    return ctx.job")
    app.jobs.load()
    async with working(app):
        run = await app.jobs["greet"].aenqueue(name="Ada")
        other = await app.aenqueue("slow")

        assert await app.aresult(run.id, timeout=PATIENCE) == "Hello, Ada"
        assert await app.aresult(other.id, timeout=PATIENCE) == "slow"
    (attempt,) = (await app.aget(run.id)).attempts
    assert attempt.version == app.jobs["greet"].spec.version


async def test_the_last_runs_of_a_job(folder: Folder, app: Windlass) -> None:
    folder.write("one.py")
    app.jobs.load()
    made = [await app.aenqueue("one") for _ in range(60)]

    found = await app.jobs.aruns("one")
    assert [run.id for run in found] == sorted((run.id for run in made), reverse=True)[:50]
    assert [run.id for run in app.jobs.runs("one")] == [run.id for run in found]
    with pytest.raises(UnknownJob):
        app.jobs.runs("two")
    with pytest.raises(UnknownJob):
        await app.jobs.aruns("two")


def test_a_worker_without_jobs_is_refused_unless_files_may_come(
    folder: Folder, app: Windlass
) -> None:
    with pytest.raises(UsageError, match="at least one job"):
        app.worker()
    app.jobs.load()
    app.worker()


async def test_a_running_worker_takes_new_changed_and_deleted_files(
    folder: Folder, app: Windlass
) -> None:
    define(app)
    app.jobs.load()
    async with working(app) as worker:
        await within(worker.started)
        assert await result(app, "coded") == "from code"
        for number in range(3):
            folder.write("one.py", f"async def run(ctx):\n    return {number}")
            app.jobs.reload()
            assert await result(app, "one") == number
        folder.write("one.py", "def run(ctx):\n    return 'in a thread'")
        app.jobs.reload()
        assert await result(app, "one") == "in a thread"
        (folder.path / "one.py").unlink()
        app.jobs.reload()
        run = await app.aenqueue("one")  # its row is still there
        assert await result(app, "coded") == "from code"
        assert (await app.aget(run.id)).status is Status.QUEUED
        folder.write("one.py")
        app.jobs.reload()
        assert await app.aresult(run.id, timeout=PATIENCE) == 1


async def test_the_store_knows_what_the_worker_runs(folder: Folder, app: Windlass) -> None:
    app.jobs.load()
    async with working(app) as worker:
        await within(worker.started)
        folder.write("one.py", f"queue = 'special'\n{GOOD}")
        app.jobs.reload()
        operations = app.store.operations
        async with asyncio.timeout(PATIENCE):
            while True:
                (row,) = await app.store.arun(operations.list_workers())
                job = await app.store.arun(operations.get_job("default", "one"))
                if row.jobs == ("one",) and job is not None:
                    break
                await asyncio.sleep(0.01)
        assert row.id == worker.id
        assert (job.queue, job.version) == ("special", app.jobs["one"].spec.version)


WAITS = """
async def run(ctx, path, since={since}):
    import asyncio
    from pathlib import Path
    from . import _helper
    Path(path + str(since)).touch()
    while not Path(path).exists():
        await asyncio.sleep(0.005)
    from . import _late
    return since, _helper.VALUE, _late.VALUE
""".replace("path, ", "path='', ")


async def test_a_running_attempt_finishes_on_the_code_it_started_with(
    folder: Folder, app: Windlass, tmp_path: Path
) -> None:
    def write(number: int) -> str:
        folder.write("_helper.py", f"VALUE = {number}")
        folder.write("_late.py", f"VALUE = {number}")
        folder.write("waits.py", WAITS.format(since=number))
        assert app.jobs.reload() == []
        return app.jobs["waits"].spec.version

    app.jobs.load()
    versions, runs = [], []
    async with working(app):
        for number in range(4):
            versions.append(write(number))
            run = await app.aenqueue("waits", {"path": str(tmp_path / "go")})
            await appears(tmp_path / f"go{number}")
            runs.append(run)
        (folder.path / "waits.py").unlink()
        app.jobs.reload()
        (tmp_path / "go").touch()

        for number, run in enumerate(runs):
            assert await app.aresult(run.id, timeout=PATIENCE) == [number] * 3
            (attempt,) = (await app.aget(run.id)).attempts
            assert attempt.version == versions[number]
    assert len(set(versions)) == 4


async def test_shutdown_forgets_the_files_and_lets_attempts_finish(
    folder: Folder, app: Windlass, tmp_path: Path
) -> None:
    define(app)
    folder.write("_helper.py", "VALUE = 1")
    folder.write("_late.py", "VALUE = 1")
    folder.write("waits.py", WAITS.format(since=1))
    app.jobs.load()
    async with working(app):
        run = await app.aenqueue("waits", {"path": str(tmp_path / "go")})
        await appears(tmp_path / "go1")
        app.jobs.shutdown()
        assert list(app.jobs) == ["coded"]
        (tmp_path / "go").touch()
        assert await app.aresult(run.id, timeout=PATIENCE) == [1, 1, 1]
        assert await result(app, "coded") == "from code"
