"""Each test of the command has a folder, an environment and modules of its own."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.apps import url

__all__ = ["url"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, without settings from elsewhere; its modules are forgotten."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("WINDLASS_")]:
        monkeypatch.delenv(name)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]
