"""`windlass backup`: a sound copy of a store in use, and never half of one."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import apsw
import pytest

from tests.cli.kit import fails, ok
from tests.fixtures.callers import make_app
from windlass import StoreError, UsageError, Windlass


@pytest.fixture
def app(tmp_path: Path) -> Windlass:
    made = make_app(f"sqlite:///{tmp_path}/w.db")
    made.jobs["send"].enqueue(n=0)
    return made


def runs_in(path: Path) -> set[str]:
    app = make_app(f"sqlite:///{path}")
    found = {run.id for run in app.list(limit=1000)}
    app.close()
    return found


def test_backup_is_a_store_of_its_own(app: Windlass, tmp_path: Path) -> None:
    made = {run.id for run in app.list()}
    copy = tmp_path / "copy.db"
    assert "sound" in ok("backup", str(copy), "--url", f"sqlite:///{tmp_path}/w.db")
    assert copy.stat().st_mode & 0o777 == 0o600
    late = app.jobs["send"].enqueue(n=1).id
    assert runs_in(copy) == made
    assert runs_in(tmp_path / "w.db") == {*made, late}
    app.close()


def test_backup_beside_writers_has_what_was_acknowledged_before(
    app: Windlass, tmp_path: Path
) -> None:
    acked: list[str] = []
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            acked.append(app.jobs["send"].enqueue(n=1).id)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for n in range(5):
            while len(acked) < 10 * (n + 1):
                assert thread.is_alive()
            before = set(acked)
            app.store.backup(tmp_path / f"{n}.db", replace=False)
            assert before <= runs_in(tmp_path / f"{n}.db")
    finally:
        stop.set()
        thread.join(10)
    app.close()


def test_existing_file_is_kept_unless_forced(app: Windlass, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(b"precious")
    url = f"sqlite:///{tmp_path}/w.db"
    assert "--force" in fails(2, "backup", str(copy), "--url", url)
    assert copy.read_bytes() == b"precious"
    ok("backup", str(copy), "--force", "--url", url)
    assert len(runs_in(copy)) == 1
    app.close()


def test_places_that_would_do_harm_are_refused(app: Windlass, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "w.db")
    for name in ("w.db", "link.db"):
        with pytest.raises(UsageError, match="the store itself"):
            app.store.backup(tmp_path / name, replace=True)
    with pytest.raises(UsageError, match="folder"):
        app.store.backup(tmp_path, replace=True)
    other = make_app(f"sqlite:///{tmp_path}/other.db")
    other.jobs["send"].enqueue(n=1)
    with pytest.raises(UsageError, match="in use"):
        app.store.backup(tmp_path / "other.db", replace=True)
    other.close()
    app.close()


def test_files_of_the_store_itself_are_refused_by_any_spelling(
    app: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = app.jobs["send"].enqueue(n=1).id
    (tmp_path / "folder").symlink_to(tmp_path)
    for end in ("-wal", "-shm"):
        (tmp_path / f"symbolic{end}").symlink_to(tmp_path / f"w.db{end}")
        os.link(tmp_path / f"w.db{end}", tmp_path / f"hard{end}")
    spellings = [f"{name}{end}" for end in ("-wal", "-shm") for name in ("symbolic", "hard")]
    for end in ("-wal", "-shm", "-journal", "-ballast", "-wake"):
        spellings += [f"w.db{end}", f"W.DB{end.upper()}", f"./folder/w.db{end}"]
    before = {path: path.read_bytes() for path in tmp_path.glob("w.db-*") if path.is_file()}

    for name in spellings:
        with pytest.raises(UsageError, match=r"belongs to the database .*w\.db"):
            app.store.backup(Path(name), replace=True)

    assert {path: path.read_bytes() for path in before} == before
    assert "belongs to" in fails(2, "backup", "w.db-wal", "--force", "--url", "sqlite:///w.db")
    assert made in {run.id for run in app.list()}
    app.close()


def test_what_is_no_file_is_not_replaced(app: Windlass, tmp_path: Path) -> None:
    """A pipe stands for a device, which such a mistake would remove from this machine."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(UsageError, match="not a regular file"):
            app.store.backup(tmp_path / name, replace=True)
    assert (tmp_path / "pipe").is_fifo()
    app.close()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_database_that_somebody_uses_is_not_replaced(
    app: Windlass, tmp_path: Path, mode: str
) -> None:
    place = tmp_path / "other.db"
    other = apsw.Connection(str(place))
    other.pragma("journal_mode", mode)
    other.execute("create table mine (n); insert into mine values (1); begin; select * from mine")

    with pytest.raises(UsageError, match="a database in use"):
        app.store.backup(place, replace=True)
    for end in ("-wal", "-shm", "-journal"):
        with pytest.raises(UsageError, match="belongs to the database"):
            app.store.backup(tmp_path / f"other.db{end}", replace=True)

    assert other.execute("select n from mine").get == 1
    other.execute("rollback")
    other.close()
    app.store.backup(place, replace=True)  # nobody has it open now
    assert len(runs_in(place)) == 1
    app.close()


def test_log_that_was_left_behind_is_not_given_to_a_backup(app: Windlass, tmp_path: Path) -> None:
    (tmp_path / "copy.db-wal").write_bytes(b"somebody's")
    with pytest.raises(UsageError, match=r"copy\.db-wal is beside it"):
        app.store.backup(tmp_path / "copy.db", replace=True)
    assert not (tmp_path / "copy.db").exists()
    app.close()


def test_backup_replaces_one_name_of_several(app: Windlass, tmp_path: Path) -> None:
    copy, kept = tmp_path / "copy.db", tmp_path / "monday.db"
    app.store.backup(copy, replace=False)
    os.link(copy, kept)
    late = app.jobs["send"].enqueue(n=1).id

    app.store.backup(copy, replace=True)

    assert late in runs_in(copy)
    assert late not in runs_in(kept)
    app.close()


def test_damaged_store_makes_no_backup(app: Windlass, tmp_path: Path) -> None:
    for n in range(200):
        app.jobs["send"].using(tags=[f"t{n}"]).enqueue(n=n)
    app.close()
    raw = apsw.Connection(str(tmp_path / "w.db"))
    raw.execute("pragma writable_schema = on")
    raw.execute("delete from runs where rowid in (select rowid from runs limit 3)")
    raw.execute("update sqlite_schema set rootpage = 3 where name = 'run_tags'")
    raw.close()
    shutil.copy(tmp_path / "w.db", tmp_path / "damaged.db")
    damaged = make_app(f"sqlite:///{tmp_path}/damaged.db")
    with pytest.raises(StoreError, match=r"not sound|is damaged"):
        damaged.store.backup(tmp_path / "copy.db", replace=False)
    assert sorted(path.name for path in tmp_path.glob("*copy*")) == []
    damaged.close()


def test_postgres_says_what_to_use_instead(pg_database: str, tmp_path: Path) -> None:
    assert "pg_dump" in fails(2, "backup", str(tmp_path / "copy"), "--url", pg_database)
    assert not list(tmp_path.iterdir())
