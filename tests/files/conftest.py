"""A folder of job files for each test, and an application on each store."""

from pathlib import Path

import pytest

from tests.files.kit import Folder
from tests.fixtures.apps import app, url

__all__ = ["app", "url"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder of job files; the working directory is the project's."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return Folder(project / "jobs")
