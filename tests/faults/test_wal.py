"""Many processes on one SQLite file: nobody's commit is lost when the log starts anew, and there
is never more than one log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.faults.mounts import FORMS, MOUNTED, mounted
from tests.fixtures.callers import make_app
from windlass import StoreError
from windlass.store.sqlite import files
from windlass.store.sqlite.files import refuse_other_names

ROOT = Path(__file__).parents[2]


class Hammer:
    """A process that writes, or empties the log; what it says goes to a file, as a pipe that is
    full would let it wait."""

    def __init__(self, mode: str, path: Path, seconds: float, number: int) -> None:
        self._said = path.with_name(f"{mode}-{number}")
        program = [sys.executable, "-m", "tests.faults.programs.hammer"]
        with self._said.open("wb") as out:
            self._process = subprocess.Popen(
                [*program, mode, str(path), str(seconds)], cwd=ROOT, stdout=out
            )

    def said(self, within: float) -> list[str]:
        """Wait for its end, and return what it said."""
        try:
            assert self._process.wait(within) == 0
        finally:
            self._process.kill()
        return self._said.read_text().split()


@pytest.mark.timeout(120)  # five processes have to start first, and others may be about
def test_log_that_starts_anew_loses_nothing(tmp_path: Path) -> None:
    _hammer(tmp_path, seconds=2.0)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_log_that_starts_anew_loses_nothing_long(tmp_path: Path) -> None:
    _hammer(tmp_path, seconds=60.0)


def _hammer(tmp_path: Path, *, seconds: float) -> None:
    """The shape of SQLite's WAL-reset bug: commits and checkpoints at the same instant."""
    path = tmp_path / "w.db"
    app = make_app(f"sqlite:///{path}")
    acked = {app.jobs["send"].enqueue(n=-1).id}
    writers = [Hammer("write", path, seconds, number) for number in range(3)]
    others = [Hammer("checkpoint", path, seconds, number) for number in range(2)]
    for writer in writers:
        acked |= set(writer.said(within=seconds + 40))
    emptied = sum(int(other.said(within=seconds + 40)[0]) for other in others)
    assert emptied > 10
    assert len(acked) > 50

    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    known = {row[0].hex() for row in connection.execute("select id from runs")}
    ready = connection.execute("select count(*) from ready").get
    connection.close()
    assert {run.replace("-", "") for run in acked} == known
    assert ready == len(known)
    app.close()


# -- one file, several names --------------------------------------------------------------------


def test_symbolic_link_leads_to_the_same_store(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.mkdir()
    (link / "w.db").symlink_to(real / "w.db")
    (tmp_path / "folder").symlink_to(real)
    apps = [make_app(f"sqlite:///{place}/w.db") for place in (real, link, tmp_path / "folder")]
    made = {app.jobs["send"].enqueue(n=1).id for app in apps}
    for app in apps:
        assert {run.id for run in app.list()} == made
    assert [name.name for name in link.iterdir()] == ["w.db"]  # no second log, bell or ballast
    assert len({app.store.place for app in apps}) == 1
    for app in apps:
        app.close()


def test_hard_link_is_refused(tmp_path: Path) -> None:
    first = make_app(f"sqlite:///{tmp_path}/a.db")
    first.jobs["send"].enqueue(n=1)
    first.close()
    os.link(tmp_path / "a.db", tmp_path / "b.db")
    for name in ("a.db", "b.db"):
        app = make_app(f"sqlite:///{tmp_path}/{name}")
        with pytest.raises(StoreError, match="2 names"):
            app.jobs["send"].enqueue(n=2)
    assert not list(tmp_path.glob("*-wal"))
    (tmp_path / "b.db").unlink()
    assert first.jobs["send"].enqueue(n=3).status == "queued"
    first.close()


def test_file_that_is_mounted_by_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a b.db"
    place = str(path).replace(" ", "\\040")
    folder = str(tmp_path).replace(" ", "\\040")
    refuse_other_names(path, 1, f"/dev/sda1 / ext4 rw 0 0\n/dev/sda1 {folder} ext4 rw 0 0\n")
    with pytest.raises(StoreError, match="mount its folder"):
        refuse_other_names(path, 1, f"/dev/sda1 / ext4 rw 0 0\n/dev/sda1 {place} ext4 rw 0 0\n")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["folder", "file"])
def test_bind_mount_never_makes_two_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, form: str
) -> None:
    """With real mounts too, where this process may make them."""
    real, other = tmp_path / "real", tmp_path / "other"
    real.mkdir()
    other.mkdir()
    app = make_app(f"sqlite:///{real}/w.db")
    app.jobs["send"].enqueue(n=1)
    source, target = (real, other) if how == "folder" else (real / "w.db", other / "w.db")
    if how == "file":
        target.touch()
    if form == MOUNTED:
        told = mounted(
            f"mount --bind '{source}' '{target}'",
            f"'{sys.executable}' -m tests.faults.programs.hammer write '{other}/w.db' 0.2 2>&1",
        )
    else:
        table = tmp_path / "mounts"
        table.write_text(f"/dev/sda1 {target} ext4 rw 0 0\n")
        monkeypatch.setattr(files, "_MOUNTS", table)
        told = _pretend(real, other, how)
    found = [] if other.is_symlink() else [path.name for path in other.iterdir()]
    assert found == ([] if how == "folder" else ["w.db"])
    if how == "file":
        assert "mounted by itself" in told
    else:
        assert {run.id for run in app.list(limit=1000)} > set(told.split()) > set()
    app.close()


def _pretend(real: Path, other: Path, how: str) -> str:
    """Use the file by its other name, as if by a mount: a folder shows what is in the real one."""
    if how == "folder":
        other.rmdir()
        other.symlink_to(real)
    app = make_app(f"sqlite:///{other}/w.db")
    try:
        return app.jobs["send"].enqueue(n=2).id
    except StoreError as error:
        return str(error)
    finally:
        app.close()
