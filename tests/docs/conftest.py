"""Examples of the docs, as files and as modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.pages import Examples, examples
from windlass.testing import isolated

__all__ = ["examples"]

Load = Callable[[str], Any]


@pytest.fixture
def load(examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import an example; its application is on an empty store, with a virtual clock."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with ExitStack() as stack:
        apart: list[Any] = []

        def found(name: str) -> Any:
            examples.write(tmp_path, name)
            importlib.invalidate_caches()
            stack.callback(sys.modules.pop, name.removesuffix(".py"), None)
            module = importlib.import_module(name.removesuffix(".py"))
            if module.app not in apart:
                apart.append(module.app)
                stack.enter_context(isolated(module.app))
            return module

        yield found
