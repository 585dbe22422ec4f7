"""Applications in modules of their own, as child processes need them, on each store."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.fixtures.apps import QUICK, url

__all__ = ["url"]

Load = Callable[..., ModuleType]

HEADER = """
import asyncio, ctypes, os, signal, subprocess, sys, threading, time
from pathlib import Path
from windlass import Cancel, Context, ContinueAs, Fatal, Retry, Snooze, SyncContext, Windlass
app = Windlass({url!r}, **{settings!r})
folder = Path({folder!r})


def say(word):
    with (folder / "said").open("a") as file:
        file.write(f"{{word}}\\n")
"""

_numbers = itertools.count(1)


@pytest.fixture
async def load(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Load]:
    """Write a module that begins with an application `app`, and import it."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[ModuleType] = []

    def load_one(source: str, **settings: Any) -> ModuleType:
        name = f"made{next(_numbers)}"
        given = QUICK | {"process_seats": 2, "cancel_grace": "50ms"} | settings
        text = HEADER.format(url=url, settings=given, folder=str(tmp_path))
        (tmp_path / f"{name}.py").write_text(text + source)
        importlib.invalidate_caches()
        made.append(importlib.import_module(name))
        return made[-1]

    yield load_one
    for module in made:
        await module.app.aclose()
        del sys.modules[module.__name__]


@pytest.fixture
def said(tmp_path: Path) -> Callable[[], list[str]]:
    """What handlers wrote down."""

    def read() -> list[str]:
        path = tmp_path / "said"
        return path.read_text().split() if path.exists() else []

    return read
