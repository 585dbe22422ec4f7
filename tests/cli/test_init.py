"""`windlass init`: a project that works as it stands, and nothing of yours is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from windlass.cli import main
from windlass.cli.init import next_commands


def windlass(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.output


def run(folder: Path, *command: str) -> str:
    """Run a program of the environment that the tests run in."""
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [str(programs / command[0]), *command[1:]],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def works(folder: Path, module: str) -> None:
    """Do what the command says to do next."""
    test, enqueue, work = (command.split() for command in next_commands(module))
    assert "2 passed" in run(folder, *test, "-q", "-p", "no:asyncio", "-W", "error")
    assert not (folder / "windlass.db").exists()  # the tests have a store of their own
    run(folder, *enqueue)
    run(folder, *work)
    runs = run(folder, "windlass", "runs")
    assert "greet" in runs
    assert "succeeded" in runs


def test_new_project_passes_its_test_and_runs_its_job(tmp_path: Path) -> None:
    printed = run(tmp_path, "windlass", "init", "shop")
    folder = tmp_path / "shop"
    files = {"app.py", "test_app.py", "windlass.toml", "README.md", ".gitignore"}
    assert {path.name for path in folder.iterdir()} == files
    assert all(f"  {command}" in printed for command in next_commands("app"))
    assert "  cd shop\n" in printed
    works(folder, "app")


def test_project_in_a_folder_that_has_one(tmp_path: Path) -> None:
    """Files of yours stay as they are, and the application gets a name that is free."""
    mine = {"app.py": "x = 1\n", "README.md": "mine\n", ".gitignore": "*.o\n", "notes.txt": "n"}
    for name, text in mine.items():
        (tmp_path / name).write_text(text)
    printed = run(tmp_path, "windlass", "init")
    assert printed.startswith(
        "Made tasks.py, test_tasks.py, windlass.toml.\n"
        "Left README.md and .gitignore as they are.\n"
        "Add windlass.db* to .gitignore.\n"
    )
    assert "cd " not in printed
    assert {name: (tmp_path / name).read_text() for name in mine} == mine
    works(tmp_path, "tasks")


def test_project_that_is_there_is_left_alone(tmp_path: Path) -> None:
    windlass("init", str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    code, printed = windlass("init", str(tmp_path))
    assert (code, "is a Windlass project already: it has a windlass.toml" in printed) == (2, True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_no_name_is_free(tmp_path: Path) -> None:
    for name in ("app.py", "test_tasks.py", "windlass_app.py"):
        (tmp_path / name).touch()
    code, printed = windlass("init", str(tmp_path))
    assert (code, "name another folder" in printed) == (2, True)
    assert len(list(tmp_path.iterdir())) == 3


def test_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        code, printed = windlass("init", str(place))
        assert code == 2
        assert printed.count("\n") == 1
