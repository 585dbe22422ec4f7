"""What the tests of job files share: a folder to write into, and how to wait for its effects."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from windlass.files.loader import NOTHING, JobFile, Loaded, load_folder

PATIENCE = 30.0

GOOD = "def run(ctx):\n    return 1\n"


class Folder:
    """A folder of job files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.loaded: Loaded = NOTHING

    def write(self, file: str, text: str | bytes = GOOD) -> Path:
        """Write a file in one step, as editors do; return its path."""
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(text.encode() if isinstance(text, str) else text)
        draft.chmod(0o644)
        os.replace(draft, path)  # noqa: PTH105
        return path

    def load(self, taken: Mapping[str, str] | None = None) -> dict[str, JobFile]:
        """Load the folder (again); return what is found by path under it."""
        self.loaded = load_folder(self.path, taken or {}, self.loaded)
        root = self.path.resolve()
        return {item.file.relative_to(root).as_posix(): item for item in self.loaded.files}

    def one(self, text: str | bytes, file: str = "one.py") -> JobFile:
        """Load a file of this text."""
        self.write(file, text)
        return self.load()[file]


async def appears(path: Path) -> None:
    """Wait for a file that a handler makes when it has begun."""
    async with asyncio.timeout(PATIENCE):
        while not path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def private_modules() -> set[str]:
    """The names in sys.modules that are of job files."""
    return {name for name in sys.modules if "@" in name}


class Calls:
    """Counts calls from any thread, and lets a test wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self._news = threading.Condition()

    def __call__(self) -> None:
        with self._news:
            self.count += 1
            self._news.notify_all()

    def until(self, done: Callable[[], bool]) -> None:
        """Wait until a call after which it is done."""
        with self._news:
            assert self._news.wait_for(done, PATIENCE), "it did not happen"
