"""`windlass init`: a project that works as it stands, and nothing of yours is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from windlass.cli import main
from windlass.cli.init import FILES, NEXT


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


def test_new_project_passes_its_test_and_runs_its_job(tmp_path: Path) -> None:
    printed = run(tmp_path, "windlass", "init", "shop")
    folder = tmp_path / "shop"
    assert {path.name for path in folder.iterdir()} == FILES.keys()
    commands = [command.split() for command, _ in NEXT]
    assert all(f"  {command}" in printed for command, _ in NEXT)
    assert "  cd shop\n" in printed

    assert "2 passed" in run(folder, *commands[0], "-q", "-p", "no:asyncio", "-W", "error")
    assert not (folder / "windlass.db").exists()  # the tests have a store of their own
    run(folder, *commands[1])
    run(folder, *commands[2])
    assert "greet" in (runs := run(folder, "windlass", "runs"))
    assert "succeeded" in runs


def test_project_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    code, printed = windlass("init")
    assert code == 0
    assert "cd " not in printed
    assert (tmp_path / ".gitignore").read_text().endswith("windlass.db*\n")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    code, printed = windlass("init", str(tmp_path))
    assert (code, "README.md would be overwritten" in printed) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        code, printed = windlass("init", str(place))
        assert code == 2
        assert printed.count("\n") == 1
