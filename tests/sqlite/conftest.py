"""A store in a file of the test's own, under a clock that stands still."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from windlass.sources import ManualSources, Sources
from windlass.store.sqlite.store import SqliteStore


@pytest.fixture
def sources() -> ManualSources:
    """A clock, ids and jitter that repeat."""
    return Sources.manual()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that does not exist yet."""
    return tmp_path / "w.db"


@pytest.fixture
async def store(path: Path, sources: ManualSources) -> AsyncIterator[SqliteStore]:
    """A store that has opened nothing yet."""
    made = SqliteStore(path, sources=sources)
    yield made
    await made.aclose()
