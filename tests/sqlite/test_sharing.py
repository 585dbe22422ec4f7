"""One file, two SQLite libraries in one process: refused, because POSIX locks would be lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from windlass import UsageError, Windlass

NAMES: dict[str, Callable[[Path], object]] = {
    "text": str,
    "path": lambda path: path,
    "bytes": lambda path: str(path).encode(),
    "link": lambda path: _link(path),
    "uri": lambda path: f"file:{path}?mode=ro",
    "uri with a host": lambda path: f"file://{path}?mode=ro",
}


def _link(path: Path) -> Path:
    link = path.with_name("link.db")
    link.symlink_to(path)
    return link


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "windlass.db"


@pytest.mark.parametrize("name", NAMES)
def test_the_module_sqlite3_cannot_open_a_file_that_windlass_has_open(
    file: Path, name: str
) -> None:
    app = Windlass(f"sqlite:///{file}")
    app.list()
    given = NAMES[name](file)
    try:
        with pytest.raises(UsageError, match=r"is open in this process by Windlass"):
            sqlite3.connect(given, uri=name.startswith("uri"))  # type: ignore[call-overload]
    finally:
        app.close()


def test_other_files_and_closed_ones_may_be_opened(file: Path, tmp_path: Path) -> None:
    app = Windlass(f"sqlite:///{file}")
    app.list()
    for name in (":memory:", "", str(tmp_path / "mine.db"), str(tmp_path / "none" / "x.db")[:0]):
        sqlite3.connect(name).close()
    app.close()
    other = sqlite3.connect(file)
    assert other.execute("select count(*) from runs").fetchone() == (0,)
    other.close()
