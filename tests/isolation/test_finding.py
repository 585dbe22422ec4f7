"""What a fresh process can find, and what is refused because it cannot."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.fixtures.apps import PATIENCE, working
from tests.isolation.conftest import Load
from tests.isolation.test_attempts import one_store
from windlass import BadOption, UsageError, Windlass
from windlass.isolation.locate import place_of


def outside() -> None:
    """A function that can be found; an application of a test cannot."""


def test_what_no_other_process_finds_is_refused_when_it_is_defined() -> None:
    app = Windlass("sqlite:///never.db")

    def inside() -> None: ...

    class Thing:
        def __call__(self) -> None: ...

    with pytest.raises(BadOption, match="defined inside a function, where no other"):
        app.job(executor="process")(inside)
    with pytest.raises(BadOption, match="lambda has no name"):
        app.job(executor="process", name="short")(lambda: None)
    with pytest.raises(BadOption, match="it is no function"):
        app.job(executor="process", name="object")(Thing())
    assert not app.jobs


def test_an_application_that_no_other_process_finds_is_refused_by_its_worker() -> None:
    app = Windlass("sqlite:///never.db")
    app.job(executor="process")(outside)

    with pytest.raises(UsageError, match="neither the job nor its application is a variable"):
        app.worker()


@one_store
async def test_a_function_that_is_registered_by_a_call_is_found_in_its_application(
    load: Load,
) -> None:
    jobs = load("""
class Group:
    @staticmethod
    def work(n: int) -> int:
        return n + 1

app.job(executor="process", name="group")(Group.work)
""")
    async with working(jobs.app):
        run = await jobs.app.aenqueue("group", {"n": 1})
        assert await jobs.app.aresult(run.id, timeout=PATIENCE) == 2


@one_store
async def test_a_job_file_runs_in_a_child_as_the_worker_knows_it(
    load: Load, tmp_path: Path
) -> None:
    jobs = load("")
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "_help.py").write_text("WORD = 'first'\n")
    (folder / "report.py").write_text(
        "import os\nfrom jobs._help import WORD\nexecutor = 'process'\n"
        "def run(ctx):\n    return [WORD, os.getpid(), __name__]\n"
    )
    assert jobs.app.jobs.load(folder) == []
    (folder / "_help.py").write_text("WORD = 'second'\n")
    async with working(jobs.app):
        run = await jobs.app.aenqueue("report")
        word, pid, _ = await jobs.app.aresult(run.id, timeout=PATIENCE)
        assert word == "first"
        assert jobs.app.jobs.reload() == []
        again = await jobs.app.aenqueue("report")
        assert (await jobs.app.aresult(again.id, timeout=PATIENCE))[:2] == ["second", pid]
    await run.arefresh()
    await again.arefresh()
    versions = [run.attempts[0].version, again.attempts[0].version]
    assert versions[1] == jobs.app.jobs["report"].spec.version != versions[0]


@one_store
async def test_the_failure_handler_of_a_job_file_runs_in_a_child_as_well(
    load: Load, tmp_path: Path
) -> None:
    jobs = load("")
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "report.py").write_text(
        "import os\nfrom windlass import FailedRun\nexecutor = 'process'\nmax_attempts = 1\n"
        "def run(ctx):\n    raise OSError(os.getpid())\n"
        "async def on_failure(failed: FailedRun):\n"
        "    return [failed.error.message, str(os.getpid())]\n"
    )
    assert jobs.app.jobs.load(folder) == []
    async with working(jobs.app, process_seats=1):
        run = await jobs.app.aenqueue("report")
        await run.await_end(timeout=PATIENCE)
        (handler,) = await jobs.app.alist(job="report.on_failure")
        failed_in, handled_in = await jobs.app.aresult(handler, timeout=PATIENCE)
    assert failed_in == handled_in != str(os.getpid())
    (attempt,) = (await handler.arefresh()).attempts
    assert attempt.version == jobs.app.jobs["report.on_failure"].spec.version


@one_store
async def test_a_module_that_cannot_be_imported_again_fails_the_attempt(load: Load) -> None:
    jobs = load("""
if (folder / "once").exists():
    raise RuntimeError("not a second time")
(folder / "once").touch()

@app.job(executor="process", max_attempts=1)
def work() -> None: ...
""")
    async with working(jobs.app):
        run = await jobs.work.aenqueue()
        await run.await_end(timeout=PATIENCE)
    assert (run.status, run.crash_count) == ("failed", 0)
    assert run.error is not None
    assert "RuntimeError: not a second time" in run.error.message


@one_store
async def test_a_job_file_is_found_after_an_import_that_failed_once(
    load: Load, tmp_path: Path
) -> None:
    """The files are sent once: a child that did not get as far as to keep them is replaced."""
    jobs = load("""
if "isolation" in sys.argv[0] and not (folder / "tried").exists():
    (folder / "tried").touch()
    raise ConnectionError("not now")
""")
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "report.py").write_text(
        "from windlass import Retry\nexecutor = 'process'\nretry = Retry.fixed(0)\n"
        "def run(ctx):\n    return ctx.attempt\n"
    )
    assert jobs.app.jobs.load(folder) == []
    async with working(jobs.app, process_seats=1):
        run = await jobs.app.aenqueue("report")
        assert await jobs.app.aresult(run.id, timeout=PATIENCE) == 2
    (first, _) = (await run.arefresh()).attempts
    assert first.error is not None
    assert "ConnectionError: not now" in first.error.message


async def test_the_child_works_on_the_store_of_its_worker(load: Load, url: str) -> None:
    """`windlass worker --url` counts more than what the module says."""
    from windlass.isolation.locate import move

    jobs = load("""
@app.job(executor="process")
def enqueue_more() -> str:
    return more.enqueue().id

@app.job
async def more() -> None: ...
""")
    original = jobs.app.settings.url
    text = Path(jobs.__file__ or "").read_text()
    Path(jobs.__file__ or "").write_text(text.replace(original, "sqlite:////nowhere/at/all.db"))
    move(jobs.app, url)
    async with working(jobs.app):
        run = await jobs.enqueue_more.aenqueue()
        made = await jobs.app.aresult(run.id, timeout=PATIENCE)
        assert (await jobs.app.aget(made)).job == "more"


@one_store
async def test_the_child_finds_file_and_modules_of_a_worker_that_has_changed_its_folder(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is relative is meant as it was when the worker was made."""
    home, elsewhere = tmp_path, tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(home)
    jobs = load("""
app = Windlass("sqlite:///my%20%C3%A9t%C3%A9%2525.db")

@app.job(executor="process", max_attempts=1)
def enqueue_more() -> str:
    return more.enqueue().id

@app.job
async def more() -> None: ...
""")
    monkeypatch.setattr(sys, "path", ["", *(x for x in sys.path if x != str(home))])
    async with working(jobs.app):
        monkeypatch.chdir(elsewhere)
        run = await jobs.enqueue_more.aenqueue()
        made = await jobs.app.aresult(run.id, timeout=PATIENCE)
        assert (await jobs.app.aget(made)).job == "more"
    assert (home / "my été%25.db").exists()
    assert list(elsewhere.iterdir()) == []


@one_store
async def test_an_application_on_the_same_file_keeps_its_store_in_the_child(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever took hold of it when the module was imported works on."""
    monkeypatch.chdir(tmp_path)
    jobs = load("""
app = Windlass("sqlite:///same.db")
held = app.store

@app.job(executor="process")
def still() -> bool:
    return held is app.store
""")
    async with working(jobs.app):
        run = await jobs.still.aenqueue()
        assert await jobs.app.aresult(run.id, timeout=PATIENCE) is True


class Leaving:
    """A module that leaves `sys.modules` as garbage, and is followed by another one."""

    left = 0

    def __init__(self) -> None:
        self.itself = self
        self.name = f"leaving{Leaving.left}"
        sys.modules[self.name] = ModuleType(self.name)

    def __del__(self) -> None:
        sys.modules.pop(self.name, None)
        Leaving.left += 1
        if Leaving.left < 500:
            Leaving()


def test_an_application_is_found_while_modules_leave(tmp_path: Path) -> None:
    """Old versions of job files do, whenever the garbage collector finds them."""
    app = Windlass(f"sqlite:///{tmp_path}/never.db")
    before = gc.get_threshold()
    Leaving()
    gc.set_threshold(1, 1, 1)
    try:
        assert place_of(app) is None
    finally:
        gc.set_threshold(*before)
        Leaving.left = 500
        gc.collect()
    assert not [name for name in sys.modules if name.startswith("leaving")]
