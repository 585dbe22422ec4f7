"""One store, wherever you stand: paths of windlass.toml, and what is said of a new file."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.kit import command, ok, run, started

APP = """
from windlass import Windlass

app = Windlass()


@app.job
async def greet() -> None: ...
"""


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "jobs.py").write_text(APP)
    (folder / "windlass.toml").write_text('[windlass]\napp = "jobs"\nurl = "sqlite:///shared.db"\n')
    (folder / "deep").mkdir()
    return folder


def test_a_command_uses_the_same_store_from_every_folder_of_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ok("enqueue", "greet").strip()
    monkeypatch.chdir(project / "deep")
    second = ok("enqueue", "greet").strip()

    listed = ok("runs")

    assert first in listed
    assert second in listed
    assert (project / "shared.db").exists()
    assert list((project / "deep").iterdir()) == []


def test_a_new_store_is_announced_once_with_its_whole_path(project: Path) -> None:
    told = f"windlass: This made a new store: {project}/shared.db.\n"

    assert run("enqueue", "greet").stderr == told
    assert run("enqueue", "greet").stderr == ""


def test_nothing_is_announced_where_nothing_was_made(project: Path) -> None:
    refused = run("enqueue", "greet", "--priority", "99999")

    assert refused.exit_code == 2
    assert "new store" not in refused.stderr
    assert not (project / "shared.db").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["worker"], "making a new store file={}"), (["dev"], "sqlite:///{}  (new)")],
)
def test_a_worker_says_that_its_store_is_new(
    project: Path, arguments: list[str], told: str
) -> None:
    with started(command(*arguments), project) as process:
        process.wait_for(told.format(project / "shared.db"))
        process.wait_for("worker started")
        process.send(signal.SIGTERM)
        assert process.ends() == 0
    with started(command(*arguments), project) as process:
        process.wait_for("worker started")
        process.send(signal.SIGTERM)
        assert process.ends() == 0
    assert "new store" not in process.output
    assert "(new)" not in process.output
