"""Jobs for child processes in all shapes of projects: on routers, from factories, in a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.apps import PATIENCE, working
from tests.isolation.conftest import Load
from tests.isolation.test_attempts import one_store
from windlass.cli.loading import load as load_app
from windlass.domain.origin import ModuleMember, Origin
from windlass.isolation.locate import Finder

ROUTED = """
import os
from windlass import Router
router = Router()

@router.job(executor="process")
def where() -> int:
    return os.getpid()
"""

PROGRAM = """
import os
import sys
from windlass import Windlass

app = Windlass("sqlite:///{file}", process_seats=1)


@app.job(executor="process")
def where() -> int:
    return os.getpid()

{rest}
"""

MAIN = """
if __name__ == "__main__":
    with app.running_in_thread():
        assert app.result(where.enqueue(), timeout=60) not in (None, os.getpid())
    print(where.name)
"""


@one_store
async def test_a_job_on_a_router_is_found_through_its_application(
    load: Load, tmp_path: Path
) -> None:
    (tmp_path / "routed_jobs.py").write_text(ROUTED)
    jobs = load("import routed_jobs\napp.include(routed_jobs.router)\n")
    try:
        async with working(jobs.app):
            run = await jobs.routed_jobs.where.aenqueue()
            assert await jobs.app.aresult(run, timeout=PATIENCE) not in (None, os.getpid())
    finally:
        del sys.modules["routed_jobs"]


@one_store
async def test_a_job_of_an_application_from_a_factory_is_found(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "factory_jobs.py").write_text(ROUTED)
    jobs = load("""
import factory_jobs
made = []
def make_app():
    made.append(1)
    assert len(made) == 1, "once in each process"
    own = Windlass(app.settings.url, process_seats=1)
    own.include(factory_jobs.router)
    return own
""")
    try:
        app = load_app(f"{jobs.__name__}:make_app")
        async with working(app):
            for _ in range(2):
                run = await app.aenqueue("where")
                assert await app.aresult(run.id, timeout=PATIENCE) not in (None, os.getpid())
        await app.aclose()
    finally:
        del sys.modules["factory_jobs"]


def test_a_factory_is_called_once_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "made_once.py").write_text(
        "from windlass import Windlass\nmade = []\ndef make_app():\n    made.append(1)\n"
        "    app = Windlass('sqlite:///never.db')\n    app.job(len_of)\n    return app\n"
        "def len_of(): ...\n"
    )
    origin = Origin(job="len_of", app=ModuleMember("made_once", "make_app"))
    finder = Finder()
    try:
        (_, first), (_, second) = finder.find(origin), finder.find(origin)
        made = sys.modules["made_once"].made
    finally:
        del sys.modules["made_once"]
    assert first is second
    assert made == [1]


@pytest.mark.parametrize("arguments", [["tasks.py"], ["-m", "tasks"]])
def test_a_job_of_the_program_itself_runs_in_a_child(tmp_path: Path, arguments: list[str]) -> None:
    text = PROGRAM.format(file=tmp_path / "w.db", rest=MAIN)
    (tmp_path / "tasks.py").write_text(text.replace("process_seats=1)", "names='module')"))

    done = _python(tmp_path, *arguments)

    assert (done.stdout, done.returncode) == ("tasks.where\n", 0), done.stderr


@pytest.mark.parametrize(
    ("file", "rest", "told"),
    [
        ("tasks.py", "", 'tasks.py is run as a program, and has no `if __name__ == "__main__":`'),
        ("my-tasks.py", MAIN, "my-tasks.py cannot be imported by a name; move it to a module"),
    ],
)
def test_a_program_that_a_child_cannot_import_is_refused(
    tmp_path: Path, file: str, rest: str, told: str
) -> None:
    (tmp_path / file).write_text(PROGRAM.format(file=tmp_path / "w.db", rest=rest))

    done = _python(tmp_path, file)

    assert done.returncode == 1
    assert told in done.stderr.splitlines()[-1]


def test_a_program_without_a_file_is_refused(tmp_path: Path) -> None:
    done = _python(tmp_path, "-c", PROGRAM.format(file=tmp_path / "w.db", rest=""))

    assert "it is defined in a program without a file" in done.stderr.splitlines()[-1]


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )
