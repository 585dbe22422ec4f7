"""Real processes on a SQLite file that is moved away, and back: what was acknowledged is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.places import SqlitePlace
from tests.faults.harness import Fleet, Stage, eventually, rest
from tests.faults.programs.jobs import Witness

ENDS = ("", "-wal", "-shm")


@pytest.fixture
def sqlite_stage(tmp_path: Path) -> Iterator[Stage]:
    """A file in a folder of its own, which can be renamed."""
    path = tmp_path / "data" / "windlass.db"
    path.parent.mkdir()
    made = Stage(SqlitePlace(path), f"sqlite:///{path}", Witness(tmp_path))
    made.app.migrate()
    yield made
    made.close()


def rename(name: Path, away: Path) -> Callable[[], None]:
    """Move something away; what is returned moves it back."""
    name.rename(away)

    def back() -> None:
        away.rename(name)

    return back


def rename_file(path: Path) -> Callable[[], None]:
    return rename(path, path.with_name("away.db"))


def rename_all(path: Path) -> Callable[[], None]:
    away = path.with_name("away.db")
    moved = [(Path(f"{path}{end}"), Path(f"{away}{end}")) for end in ENDS]
    for name, other in moved:
        name.rename(other)

    def back() -> None:
        for name, other in reversed(moved):
            other.rename(name)

    return back


def rename_folder(path: Path) -> Callable[[], None]:
    return rename(path.parent, path.parent.with_name("away"))


def replace_by_empty(path: Path) -> Callable[[], None]:
    back = rename_all(path)
    path.touch()

    def put_back() -> None:
        path.unlink()
        back()

    return put_back


def remove_log(path: Path) -> Callable[[], None]:
    Path(f"{path}-wal").unlink()
    return lambda: None


WAYS = [rename_file, rename_all, rename_folder, replace_by_empty, remove_log]


@pytest.mark.parametrize("move", WAYS, ids=lambda way: way.__name__)
def test_what_is_acknowledged_while_the_file_is_moved_is_kept(
    sqlite_stage: Stage, fleet: Fleet, move: Callable[[Path], Callable[[], None]]
) -> None:
    stage = sqlite_stage
    assert isinstance(stage.place, SqlitePlace)
    path = stage.place.path
    fleet.ready_worker()
    fleet.client(by="key", patient=True, ms=1)
    stage.await_lines("effects", 20)
    stage.close()  # the test's own process has nothing open meanwhile

    back = move(path)
    if move is not remove_log:
        eventually(lambda: stage.witness.raw("refused"), what="a call was refused")
        before = len(stage.acked())
        rest(0.5)
        assert len(stage.acked()) <= before + 1  # that was under way
    back()

    before, done = len(stage.acked()), len(stage.witness.raw("effects"))
    stage.await_lines("acks", before + 20)
    stage.await_lines("effects", done + 20)  # the worker came back, too
    client = fleet.processes[-1]
    client.kill()
    stage.quiet()
    stage.check(acked=stage.acked().values())
