"""The file: which one is meant, whose it is, and what is said when it cannot be used."""

import os
import stat
from pathlib import Path

import apsw
import pytest

from tests.sqlite.kit import new_run
from windlass.errors import BadOption, StoreError, StoreFull, StoreUnavailable
from windlass.sources import ManualSources
from windlass.store.sqlite import database_errors
from windlass.store.sqlite.files import parse_path, refuse_remote
from windlass.store.sqlite.store import SqliteStore


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ((3, 6, 23), False),  # before there was a write-ahead log
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 44, 7), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_sqlite_that_may_lose_commits_is_refused(
    version: tuple[int, int, int], refused: bool
) -> None:
    assert database_errors.loses_commits(version) is refused


def test_refusal_names_the_version_and_the_remedy() -> None:
    with pytest.raises(StoreError, match=r"SQLite 3\.40\.1 .*install apsw"):
        database_errors.check_version("3.40.1")
    database_errors.check_version(apsw.sqlite_lib_version())


@pytest.mark.parametrize(
    ("place", "file"),
    [
        ("sqlite:////var/lib/w.db", "/var/lib/w.db"),
        ("sqlite:////var/my%20jobs/w.db", "/var/my jobs/w.db"),
        ("sqlite:////var/donn%C3%A9es/w.db", "/var/données/w.db"),
        ("sqlite:////var/%E9/w.db", os.fsdecode(b"/var/\xe9/w.db")),
        ("/var/lib/w.db", "/var/lib/w.db"),
        ("sqlite:///w.db", str(Path("w.db").absolute())),
        (Path("w.db"), str(Path("w.db").absolute())),
    ],
)
def test_place_names_a_file(place: str | Path, file: str) -> None:
    assert parse_path(place) == Path(file)


@pytest.mark.parametrize("place", ["sqlite://w.db", "sqlite:w.db", "sqlite:///", ":memory:", ""])
def test_place_that_names_no_file_is_refused(place: str) -> None:
    with pytest.raises(BadOption):
        parse_path(place)


def test_nothing_is_opened_before_the_first_use(path: Path) -> None:
    SqliteStore(path).close()
    assert not path.exists()


def test_files_are_for_their_owner_alone(
    store: SqliteStore, sources: ManualSources, path: Path
) -> None:
    store.run(store.operations.enqueue([new_run(sources)]))
    found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert found == {"w.db": 0o600, "w.db-wal": 0o600, "w.db-shm": 0o600}


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"The folder .*/none does not exist: create it"):
        SqliteStore(tmp_path / "none" / "w.db").migrate()


def test_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"The folder .*/file does not exist"):
        SqliteStore(tmp_path / "file" / "w.db").migrate()


def test_folder_is_not_a_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder: name a file in it"):
        SqliteStore(tmp_path).migrate()


def test_other_file_is_not_a_database_and_is_left_alone(path: Path) -> None:
    text = "not a database, but somebody's notes\n" * 100
    path.write_text(text)
    with pytest.raises(StoreError, match=r"w\.db is not an SQLite database"):
        SqliteStore(path).migrate()
    assert path.read_text() == text


def test_damaged_file_is_named(path: Path, sources: ManualSources) -> None:
    with SqliteStore(path, sources=sources) as store:
        store.run(store.operations.enqueue([new_run(sources) for _ in range(500)]))
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xa5" * (len(whole) - 8192))
    store = SqliteStore(path, sources=sources)
    with pytest.raises(StoreError, match=r"w\.db is damaged"):
        store.run(store.operations.enqueue([new_run(sources)]))
    store.close()


@pytest.mark.parametrize(
    ("error", "told", "words"),
    [
        (apsw.BusyError, StoreUnavailable, "/x/w.db is locked"),
        (apsw.FullError, StoreFull, "no room left for /x/w.db"),
        (apsw.IOError, StoreError, "The disk failed under /x/w.db"),
        (apsw.CorruptError, StoreError, "/x/w.db is damaged"),
        (apsw.NotADBError, StoreError, "/x/w.db is not an SQLite database"),
        (apsw.ReadOnlyError, StoreError, "/x/w.db cannot be written to"),
        (apsw.CantOpenError, StoreError, "/x/w.db cannot be opened"),
        (apsw.SQLError, StoreError, "SQLite failed on /x/w.db"),
    ],
)
def test_errors_of_sqlite_are_told_with_the_file(
    error: type[apsw.Error], told: type[StoreError], words: str
) -> None:
    translated = database_errors.translate(error("what"), "/x/w.db")
    assert type(translated) is told
    assert words in str(translated)


MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/me/local\\040disk ext4 rw 0 0
//share /mnt/share cifs rw 0 0
server:/d /mnt/données nfs4 rw 0 0
server:/e /mnt/\\303\\251t\\303\\251 nfs4 rw 0 0
server:/x /mnt/\\134x41 nfs4 rw 0 0
""" + os.fsdecode(b"server:/b /mnt/\xe9 nfs4 rw 0 0\n")


@pytest.mark.parametrize(
    "file", ["/w.db", "/mnt/A/w.db", "/tmp/w.db", "/homes/w.db", "/home/me/local disk/w.db"]
)
def test_local_disk_is_taken(file: str) -> None:
    refuse_remote(Path(file), MOUNTS)


@pytest.mark.parametrize(
    "file",
    [
        "/home/w.db",
        "/home/me/w.db",
        "/mnt/share/w.db",
        "/mnt/données/w.db",
        "/mnt/été/w.db",
        "/mnt/\\x41/w.db",
        os.fsdecode(b"/mnt/\xe9/w.db"),
    ],
)
def test_network_disk_is_refused(file: str) -> None:
    with pytest.raises(StoreError, match="is on a network disk"):
        refuse_remote(Path(file), MOUNTS)
