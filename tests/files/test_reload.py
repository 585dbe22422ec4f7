"""Hot reload: files that change under a worker, as the system tells of them."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import watchfiles

from tests.files.kit import GOOD, Calls, Folder, appears, private_modules
from tests.fixtures.apps import PATIENCE, within, working
from windlass import Windlass

ROUNDS = 300
PROMPT = 1.0


@contextmanager
def watched(app: Windlass) -> Iterator[Calls]:
    """Watch the files; count the changes."""
    calls = Calls()
    app.jobs.watch(calls)
    try:
        yield calls
    finally:
        app.jobs.unwatch()


def timed(calls: Calls, done: Callable[[], bool]) -> float:
    """Wait until it is done; return the seconds it took."""
    began = time.monotonic()
    calls.until(done)
    return time.monotonic() - began


def memory() -> int:
    """The bytes that this process uses."""
    resident = Path("/proc/self/statm").read_text().split()[1]
    return int(resident) * os.sysconf("SC_PAGE_SIZE")


measured = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Windlass]:
    """An application whose store is not used."""
    app = Windlass(f"sqlite:///{tmp_path}/none.db")
    yield app
    app.jobs.shutdown()


def test_new_changed_and_deleted_files_are_seen_within_a_second(
    folder: Folder, alone: Windlass
) -> None:
    folder.write("_helper.py", "VALUE = 1")
    folder.write("one.py", f"from . import _helper\n{GOOD}")
    with watched(alone) as calls:
        folder.write("sub/two.py")
        assert timed(calls, lambda: "sub.two" in alone.jobs) < PROMPT
        before = alone.jobs["one"].spec.version
        folder.write("_helper.py", "VALUE = 2")
        assert timed(calls, lambda: alone.jobs["one"].spec.version != before) < PROMPT
        (folder.path / "sub/two.py").unlink()
        assert timed(calls, lambda: "sub.two" not in alone.jobs) < PROMPT


def test_a_broken_file_keeps_its_last_good_version_and_tells(
    folder: Folder, alone: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("one.py")
    with watched(alone) as calls:
        good = alone.jobs["one"].spec
        folder.write("one.py", "\n\ndef run(ctx:")
        timed(calls, lambda: alone.jobs.list()[0].error is not None)
        (job,) = alone.jobs.list()
        assert alone.jobs["one"].spec is good
        assert job.version == good.version
        folder.write("one.py", f"{GOOD}# again")
        timed(calls, lambda: alone.jobs.list()[0].error is None)
    told = [str(vars(record).get("error")) for record in caplog.records]
    assert f"{folder.path}/one.py:3: '(' was never closed" in told


@pytest.mark.parametrize("how", ["missing", "replaced", "moved away"])
def test_the_folder_itself_may_come_and_go(folder: Folder, alone: Windlass, how: str) -> None:
    if how != "missing":
        folder.write("old.py")
    with watched(alone) as calls:
        if how == "replaced":
            shutil.rmtree(folder.path)
        elif how == "moved away":
            folder.path.rename(folder.path.with_name("away"))
            timed(calls, lambda: not alone.jobs)
        folder.write("one.py")
        timed(calls, lambda: list(alone.jobs) == ["one"])
        folder.write("two.py")
        assert timed(calls, lambda: "two" in alone.jobs) < PROMPT


def test_watching_twice_and_stopping_twice_is_harmless(folder: Folder, alone: Windlass) -> None:
    with watched(alone), watched(alone) as calls:
        folder.write("one.py")
        timed(calls, lambda: "one" in alone.jobs)
    alone.jobs.unwatch()


@pytest.mark.parametrize(
    "error", ["KeyboardInterrupt", "GeneratorExit", "asyncio.CancelledError", "SystemExit"]
)
def test_watching_goes_on_after_a_file_that_raises_what_means_stop(
    folder: Folder, alone: Windlass, error: str
) -> None:
    def error_of(job: str) -> str:
        return "".join(str(item.error or "") for item in alone.jobs.list() if item.name == job)

    folder.write("one.py", f"{GOOD}# one")
    with watched(alone) as calls:
        good = alone.jobs["one"].spec.version
        folder.write("one.py", f"import asyncio\nraise {error}('stop')\n")
        timed(calls, lambda: error.rpartition(".")[2] in error_of("one"))
        assert f"{folder.path / 'one.py'}:2" in error_of("one")
        assert alone.jobs["one"].spec.version == good
        folder.write("one.py", f"{GOOD}# two")
        timed(calls, lambda: alone.jobs["one"].spec.version != good)
        assert error_of("one") == ""


def test_a_folder_that_the_system_does_not_watch_is_looked_at(
    folder: Folder,
    alone: Windlass,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*args: object, **options: object) -> Iterator[bool]:
        raise OSError("no space left on device")  # as inotify says: there are too many watches

    monkeypatch.setattr(watchfiles, "watch", refuse)
    folder.write("one.py")
    with watched(alone) as calls:
        folder.write("two.py")
        timed(calls, lambda: "two" in alone.jobs)
    told = [record for record in caplog.records if "every half second" in record.message]
    assert len(told) == 1


BROKEN: list[str | bytes] = [
    "def run(ctx:",  # a syntax error
    "from .loop import x",  # an import loop
    "from . import missing",
    "",  # emptied, about to be written
    "def run(ctx, n=0):\n    return",  # fine, yet its helper is not
    "def run(ctx, n",  # half-written
    "raise SystemExit",
    "raise KeyboardInterrupt",
    b"\xff\xfe",
]


@measured
async def test_hundreds_of_reloads_under_running_attempts(
    folder: Folder, app: Windlass, tmp_path: Path
) -> None:
    text = "from ._helper import VALUE\n"
    text += "async def run(ctx, path='', n={n}):\n    import asyncio, pathlib\n"
    text += "    path and pathlib.Path(path + '.begun').touch()\n"
    text += "    while path and not pathlib.Path(path).exists():\n"
    text += "        await asyncio.sleep(0.01)\n    return n, VALUE\n"
    folder.write("loop.py", f"from .job import VALUE as x\n{GOOD}")
    app.jobs.load()
    begun: list[tuple[int, str, str]] = []
    used = modules = 0
    async with working(app, concurrency=1000) as worker:
        await within(worker.started)
        for n in range(ROUNDS):
            folder.write("_helper.py", f"VALUE = {n}\nFILL = list(range(1000))")
            folder.write("job.py", text.format(n=n))
            app.jobs.reload()
            good = app.jobs["job"].spec.version
            if n % 30 == 0:
                run = await app.aenqueue("job", {"path": str(tmp_path / f"go{n}")})
                await appears(tmp_path / f"go{n}.begun")
                begun.append((n, run.id, good))
            broken = BROKEN[n % len(BROKEN)]
            folder.write("_helper.py" if n % len(BROKEN) == 4 else "job.py", broken)
            app.jobs.reload()
            assert app.jobs["job"].spec.version == good
            if n % 7 == 0:
                (folder.path / "job.py").unlink(missing_ok=True)
                app.jobs.reload()
                assert "job" not in app.jobs
            if n == 30:
                used, modules = memory(), len(private_modules())
            await asyncio.sleep(0)
        for n, ident, version in begun:
            (tmp_path / f"go{n}").touch()
            assert await app.aresult(ident, timeout=PATIENCE) == [n, n]
            (attempt,) = (await app.aget(ident)).attempts
            assert attempt.version == version
    gc.collect()
    assert memory() - used < 20 * 1024 * 1024
    assert len(private_modules()) <= modules


@measured
def test_many_reloads_use_no_more_memory(folder: Folder, alone: Windlass) -> None:
    for name in range(5):
        folder.write(f"job{name}.py", f"from ._helper import VALUE\n{GOOD}")
    folder.write("bad.py", "from ._helper import VALUE\nraise ValueError(VALUE)")
    before = private_modules()
    alone.jobs.load()
    used = 0
    for number in range(250):  # what one would keep is a quarter of a megabyte
        folder.write("_helper.py", f"VALUE = {number}\nFILL = list(range(1000))")
        alone.jobs.reload()
        if number == 50:
            used = memory()

    assert memory() - used < 15 * 1024 * 1024
    assert len({name.partition(".")[0] for name in private_modules() - before}) == 1
