"""What the doctor finds in a SQLite file, each thing broken for real where it can be."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE

import apsw
import pytest

from tests.doctor.kit import bad, checkup, make_app, of, only
from tests.faults.harness import Locker
from windlass.domain.checkup import Severity
from windlass.store.sqlite.checks import judge_filesystem, judge_settings, judge_version


@pytest.fixture
def url(file: Path) -> str:
    """The URL of a file that has its tables."""
    found = f"sqlite:///{file}"
    make_app(found).close()
    return found


@contextmanager
def opened(file: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(file))
    try:
        yield connection
    finally:
        connection.close()


def test_a_healthy_file(url: str) -> None:
    report = checkup(url)

    assert bad(report) == []
    assert only(report, "sqlite").text.startswith(f"SQLite is {apsw.sqlite_lib_version()}")


def test_a_file_that_is_not_there_is_not_made(file: Path) -> None:
    report = checkup(f"sqlite:///{file}")

    assert only(report, "file").severity is Severity.ERROR
    assert only(report, "file").text == f"There is no file {file}."
    assert not only(report, "store").made
    assert not only(report, "workers").made
    assert not file.exists()


def test_a_folder_that_is_not_there(file: Path) -> None:
    report = checkup(f"sqlite:///{file.parent / 'no' / 'file.db'}")

    assert report.worst is Severity.ERROR


def test_a_file_that_is_no_database(file: Path) -> None:
    file.write_bytes(b"nonsense" * 1000)

    found = only(checkup(f"sqlite:///{file}"), "store")

    assert found.severity is Severity.ERROR
    assert "is not an SQLite database" in found.text


def test_a_file_without_tables_is_not_given_any(file: Path) -> None:
    with opened(file) as connection:
        connection.execute("create table mine (n)")

    report = checkup(f"sqlite:///{file}")

    assert only(report, "schema").severity is Severity.ERROR
    with opened(file) as connection:
        assert connection.execute("select name from sqlite_schema").fetchall() == [("mine",)]


def set_version(file: Path, version: int) -> None:
    with opened(file) as connection:
        connection.execute("delete from schema_version where version > 1")
        connection.execute("update schema_version set version = ?", (version,))


def test_a_file_of_a_newer_version(url: str, file: Path) -> None:
    set_version(file, 99)

    found = only(checkup(url), "schema")

    assert found.severity is Severity.ERROR
    assert "Upgrade Windlass" in found.advice


def test_a_file_of_an_older_version_is_migrated_by_its_next_use_and_not_by_the_doctor(
    url: str, file: Path
) -> None:
    set_version(file, 1)

    report = checkup(url)

    found = only(report, "schema")
    assert found.severity is Severity.NOTE
    assert "The next use brings it up to date by itself." in found.text
    assert bad(report) == []
    assert not only(report, "workers").made
    with opened(file) as connection:
        assert connection.execute("select max(version) from schema_version").get == 1


def test_a_journal_that_somebody_switched(url: str, file: Path) -> None:
    with opened(file) as connection:
        connection.pragma("journal_mode", "delete")

    found = only(checkup(url), "log")

    assert found.severity is Severity.WARNING
    assert "is in mode delete" in found.text


def test_a_log_that_a_reader_keeps(url: str, file: Path) -> None:
    with opened(file) as reader, opened(file) as writer:
        reader.execute("begin; select * from runs")
        writer.execute("create table filler (n)")
        writer.execute("insert into filler values (zeroblob(3000000))")
        found = only(checkup(url, log_bytes=1024**2), "log")

    assert found.severity is Severity.WARNING
    assert "keeps a read transaction open" in found.text


def test_a_file_that_others_may_read(url: str, file: Path) -> None:
    file.chmod(0o644)

    local, rights = of(checkup(url), "file")

    assert local.severity is Severity.OK
    assert rights.severity is Severity.NOTE
    assert rights.text.endswith("(644).")


def test_a_disk_that_is_full(url: str) -> None:
    assert only(checkup(url, free_bytes=2**60), "disk").severity is Severity.ERROR


def test_a_file_that_somebody_keeps_locked(url: str, file: Path) -> None:
    with opened(file) as locker:
        locker.pragma("locking_mode", "exclusive")
        locker.execute("begin exclusive")
        report = checkup(url, seconds=0.3)
        locker.execute("rollback")
        left = [t for t in threading.enumerate() if t.name.startswith("windlass-doctor")]

    assert only(report, "store").severity.rank >= Severity.WARNING.rank
    assert not only(report, "workers").made
    for thread in left:
        thread.join(10)


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("ext4", Severity.OK),
        ("nfs4", Severity.ERROR),
        ("cifs", Severity.ERROR),
        ("fuse.sshfs", Severity.ERROR),
    ],
)
def test_network_disks(kind: str, severity: Severity) -> None:
    table = f"/dev/sda1 / ext4 rw 0 0\nhost:/share /mnt/share {kind} rw 0 0\n"

    assert judge_filesystem(Path("/mnt/share/windlass.db"), table).severity is severity


def test_a_disk_of_unknown_kind() -> None:
    assert judge_filesystem(Path("/mnt/windlass.db"), "").severity is Severity.NOTE


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        ("3.40.1", Severity.ERROR),
        ("3.51.2", Severity.ERROR),
        ("3.50.7", Severity.OK),
        ("3.54.1", Severity.OK),
    ],
)
def test_versions_of_sqlite(version: str, severity: Severity) -> None:
    assert judge_version(version).severity is severity


@pytest.mark.parametrize(
    ("synchronous", "mapped", "severity"),
    [(2, 0, Severity.OK), (3, 0, Severity.OK), (1, 0, Severity.ERROR), (2, 1, Severity.WARNING)],
)
def test_settings_of_a_connection(synchronous: int, mapped: int, severity: Severity) -> None:
    assert judge_settings(synchronous, mapped).severity is severity


def test_process_that_holds_the_write_lock_is_named(url: str, file: Path) -> None:
    with closing(Locker(file)) as locker:
        assert only(checkup(url), "lock").severity is Severity.OK
        locker.lock()
        busy = only(checkup(url, seconds=20.0), "lock")
        locker.signal(signal.SIGSTOP)
        stopped = only(checkup(url, seconds=20.0), "lock")
        locker.signal(signal.SIGCONT)
        locker.let_go()
        assert only(checkup(url), "lock").severity is Severity.OK

    for found in (busy, stopped):
        assert found.severity is Severity.WARNING
        assert found.text.startswith(f"Process {locker.pid} (")
        assert "tests.faults.programs.locker" in found.text
        assert "has held the write lock for 1 s" in found.text
    assert f"py-spy dump --pid {locker.pid}" in busy.advice
    assert stopped.text.endswith(", and is stopped.")
    assert f"kill -CONT {locker.pid}" in stopped.advice


def test_lock_of_a_file_that_nobody_has_open(url: str) -> None:
    assert only(checkup(url), "lock").text == "Nobody holds the write lock."


def test_lock_that_is_free(url: str, file: Path) -> None:
    with opened(file) as reader:
        reader.execute("select * from runs")
        assert only(checkup(url), "lock").text == "Nobody holds the write lock for long."


def test_lock_whose_holder_cannot_be_asked_for(
    url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(file))  # which is no program
    with opened(file) as reader:
        reader.execute("select * from runs")
        found = only(checkup(url), "lock")
    assert found.severity is Severity.NOTE
    assert "lsof" in found.advice


SHARING = """
import sqlite3, sys
from windlass import Windlass
from windlass.doctor import examine

url, file = sys.argv[1:]
theirs = sqlite3.connect(file)          # before Windlass, which would refuse it
theirs.execute("select count(*) from runs").fetchall()
app = Windlass(url)
app.list(), app.list(status="queued")
print("open", flush=True)
sys.stdin.readline()
(found,) = [f for f in examine(app).findings if f.check == "sharing"]
print(found.severity.value, flush=True)
theirs.close()
print("closed", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what is mapped")
def test_file_that_is_open_through_two_libraries(url: str, file: Path) -> None:
    command = [sys.executable, "-c", SHARING, url, str(file)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "open\n"
        shared = only(checkup(url), "sharing")
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "warning\n"  # the program finds it itself, too
        assert program.stdout.readline() == "closed\n"
        assert only(checkup(url), "sharing").severity is Severity.OK
        program.communicate("\n")

    assert shared.severity is Severity.WARNING
    assert shared.text.startswith(f"Process {program.pid} (")
    assert "such as Windlass and Python's module sqlite3" in shared.text
    assert "app.transaction()" in shared.advice


def test_many_connections_of_one_library_are_no_sharing(url: str, file: Path) -> None:
    with opened(file) as one, opened(file) as other:
        for connection in (one, other):
            connection.execute("select * from runs")
        assert only(checkup(url), "sharing").severity is Severity.OK
