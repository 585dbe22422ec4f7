"""`windlass backup`: a sound copy of a store in use, and never half of one."""

from __future__ import annotations

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
