"""A file that is moved, replaced or loses its log under us: nothing is acknowledged there."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.fixtures.callers import make_app
from tests.sqlite.kit import JOB, new_run, new_worker, start_script
from windlass import StoreError, StoreUnavailable, Windlass
from windlass.domain.listing import RunFilter
from windlass.domain.run import Want
from windlass.sources import Sources
from windlass.store.sqlite import custody
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.open_transaction import StoreClock
from windlass.store.sqlite.store import SqliteStore

ENDS = ("", "-wal", "-shm")


@pytest.fixture
async def store(path: Path) -> Any:
    """A store that has something open on every connection, under the real clock."""
    made = SqliteStore(path)
    make(made)
    for name in READS | WRITES:
        await OPERATIONS[name](made)
    yield made
    await made.aclose()


def make(store: SqliteStore) -> str:
    (answer,) = store.run(store.operations.enqueue([new_run(Sources.system())]))
    return answer.id


async def enqueue(store: SqliteStore) -> None:
    make(store)


async def aenqueue(store: SqliteStore) -> None:
    await store.arun(store.operations.enqueue([new_run(Sources.system())]))


async def claim(store: SqliteStore) -> None:
    await store.arun(store.operations.cycle("w1", 1, [], Want(limit=1, jobs=(JOB,))))


async def renew(store: SqliteStore) -> None:
    store.run(store.operations.renew("w1", 10.0, [], 0))


async def transaction(store: SqliteStore) -> None:
    with store.transaction() as tx:
        store.join(tx, [new_run(Sources.system())])


async def atransaction(store: SqliteStore) -> None:
    async with store.transaction() as tx:
        await store.ajoin(tx, [new_run(Sources.system())])


async def register(store: SqliteStore) -> None:
    store.run(store.operations.register(new_worker(), 300.0))


async def listing(store: SqliteStore) -> None:
    store.run(store.operations.list_runs(RunFilter(tenant="default", limit=10)))


async def alisting(store: SqliteStore) -> None:
    await store.arun(store.operations.list_runs(RunFilter(tenant="default", limit=10)))


async def aget(store: SqliteStore) -> None:
    await store.arun(store.operations.list_jobs("default"))


async def backup(store: SqliteStore) -> None:
    store.backup(store.path.parent.parent / "copy.db", replace=True)


OPERATIONS: dict[str, Callable[[SqliteStore], Awaitable[None]]] = {
    function.__name__: function
    for function in (
        register, enqueue, aenqueue, claim, renew, transaction, atransaction, listing, alisting,
        aget, backup,
    )
}  # fmt: skip
READS = {"listing", "alisting", "aget", "backup"}
WRITES = set(OPERATIONS) - READS


@contextmanager
def renamed(path: Path) -> Iterator[None]:
    away = path.with_name("away.db")
    path.rename(away)
    yield
    away.rename(path)


@contextmanager
def renamed_with_its_log(path: Path) -> Iterator[None]:
    for end in ENDS:
        Path(f"{path}{end}").rename(f"{path}.away{end}")
    yield
    for end in ENDS:
        Path(f"{path}.away{end}").rename(f"{path}{end}")


@contextmanager
def folder_renamed(path: Path) -> Iterator[None]:
    away = path.parent.with_name("away")
    path.parent.rename(away)
    yield
    away.rename(path.parent)


@contextmanager
def replaced_by_an_empty_file(path: Path) -> Iterator[None]:
    with renamed_with_its_log(path):
        path.touch()
        yield
        path.unlink()


@contextmanager
def replaced_by_nonsense(path: Path) -> Iterator[None]:
    with renamed_with_its_log(path):
        path.write_bytes(b"nonsense" * 1000)
        yield
        path.unlink()


@contextmanager
def replaced_by_another_store(path: Path) -> Iterator[None]:
    with renamed_with_its_log(path):
        other = SqliteStore(path)
        for _ in range(20):
            make(other)
        other.close()
        yield
        path.unlink()


WAYS = [
    renamed,
    renamed_with_its_log,
    folder_renamed,
    replaced_by_an_empty_file,
    replaced_by_nonsense,
    replaced_by_another_store,
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """In a folder that can be renamed."""
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "w.db"


def count(path: Path) -> int:
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found: int = raw.execute("select count(*) from runs").get
        return found
    finally:
        raw.close()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_nothing_is_answered_from_a_file_that_is_away(
    store: SqliteStore, path: Path, way: Any
) -> None:
    before = count(path)
    with way(path):
        there = path.exists() and path.read_bytes()
        for operation in OPERATIONS.values():
            with pytest.raises(StoreUnavailable):
                await operation(store)
        assert (path.exists() and path.read_bytes()) == there  # and nothing was made or changed

    for operation in OPERATIONS.values():  # it is back, and so are we
        await operation(store)
    assert count(path) == before + 4


async def test_deleted_file_is_not_made_anew(store: SqliteStore, path: Path) -> None:
    for end in ENDS:
        Path(f"{path}{end}").unlink()
    for name in WRITES | READS:
        with pytest.raises(StoreUnavailable, match="is gone"):
            await OPERATIONS[name](store)
    assert not path.exists()


def test_move_at_the_moment_of_the_commit_leaves_it_in_doubt(path: Path) -> None:
    app = make_app(f"sqlite:///{path}")
    known = app.jobs["send"].enqueue(n=1).id

    def enqueue_and_move() -> None:
        with app.transaction() as tx:
            app.jobs["send"].using(connection=tx).enqueue(n=2)
            path.rename(path.with_name("away.db"))

    with pytest.raises(StoreUnavailable, match="in doubt"):
        enqueue_and_move()
    with pytest.raises(StoreUnavailable, match="is gone"):
        app.list()
    path.with_name("away.db").rename(path)
    assert known in {run.id for run in app.list()}
    app.close()


async def test_writer_tells_all_of_a_group(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path)
    make(store)
    original = Connection._check_committed

    def move_and_check(connection: Connection) -> None:
        if path.exists():
            path.rename(path.with_name("away.db"))
        original(connection)

    await store.arun(store.operations.list_jobs("default"))
    monkeypatch.setattr(Connection, "_check_committed", move_and_check)
    with pytest.raises(StoreUnavailable, match="in doubt"):
        await store.arun(store.operations.enqueue([new_run(Sources.system())]))
    monkeypatch.undo()
    path.with_name("away.db").rename(path)
    await store.arun(store.operations.enqueue([new_run(Sources.system())]))
    await store.aclose()
    assert count(path) == 3


# -- which file it goes on with ---------------------------------------------------------------


def test_same_store_in_another_file_is_gone_on_with(path: Path) -> None:
    """As after a move to another disk and back: another inode, and nothing is missing."""
    app = make_app(f"sqlite:///{path}")
    app.jobs["send"].enqueue(n=1)
    before = path.stat().st_ino
    for end in ENDS:
        Path(f"{path}{end}").rename(f"{path}.away{end}")
    with pytest.raises(StoreUnavailable):
        app.jobs["send"].enqueue(n=2)
    raw = apsw.Connection(f"{path}.away")
    assert raw.execute("select count(*) from runs").get == 1
    raw.close()  # which moves the log into the file
    shutil.copy(f"{path}.away", path)
    assert path.stat().st_ino != before

    app.jobs["send"].enqueue(n=3)
    assert len(app.list()) == 2
    app.close()


def test_store_is_known_though_a_later_version_is_stamped_earlier(path: Path) -> None:
    """As when the clock was set back before the store was migrated once more."""
    app = make_app(f"sqlite:///{path}")
    app.jobs["send"].enqueue(n=1)
    raw = apsw.Connection(str(path))
    raw.execute("update schema_version set applied_at = 0 where version > 1")
    raw.close()
    app.store.close()

    app.jobs["send"].enqueue(n=2)
    assert len(app.list()) == 2
    app.close()


def test_older_copy_is_refused_until_a_restart(path: Path, tmp_path: Path) -> None:
    app = make_app(f"sqlite:///{path}")
    app.jobs["send"].enqueue(n=1)
    app.store.backup(tmp_path / "copy.db", replace=False)
    app.jobs["send"].enqueue(n=2)
    for end in ENDS:
        Path(f"{path}{end}").unlink()
    shutil.copy(tmp_path / "copy.db", path)

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="older copy"):
            app.jobs["send"].enqueue(n=3)
        with pytest.raises(StoreUnavailable, match="older copy"):
            app.list()
    fresh = make_app(f"sqlite:///{path}")
    assert len(fresh.list()) == 1
    fresh.close()


def test_restored_copy_is_used_by_whoever_starts_then(path: Path, tmp_path: Path) -> None:
    """As docs/backups.md says: stop, replace, remove the log, start."""
    app = make_app(f"sqlite:///{path}")
    app.jobs["send"].enqueue(n=1)
    app.store.backup(tmp_path / "copy.db", replace=False)
    app.jobs["send"].enqueue(n=2)
    app.close()
    shutil.copy(tmp_path / "copy.db", path)
    app = make_app(f"sqlite:///{path}")
    assert len(app.list()) == 1
    app.close()


def test_file_is_not_made_beside_a_log_that_is_left(path: Path) -> None:
    process = start_script(HOLD, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    path.unlink()
    log = Path(f"{path}-wal")
    left = log.read_bytes()

    app = make_app(f"sqlite:///{path}")
    with pytest.raises(StoreError, match=r"its log w\.db-wal is still there"):
        app.jobs["send"].enqueue(n=1)

    assert log.read_bytes() == left
    assert not path.exists()


# -- the log and its index ---------------------------------------------------------------------

HOLD = """
import sys
from tests.fixtures.callers import make_app
from windlass import StoreUnavailable
app = make_app(f"sqlite:///{sys.argv[1]}")
app.jobs["send"].enqueue(n=0)
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(app.jobs["send"].enqueue(n=1).id, flush=True)
    except StoreUnavailable as error:
        print("refused:", error, flush=True)
"""


@pytest.mark.parametrize("end", ["-wal", "-shm"])
async def test_log_that_is_removed_under_its_only_user_costs_nothing(
    store: SqliteStore, path: Path, end: str
) -> None:
    before = count(path)
    Path(f"{path}{end}").unlink()
    made = make(store)
    await aenqueue(store)
    await store.aclose()
    assert count(path) == before + 2
    app = Windlass(f"sqlite:///{path}")
    assert made in {run.id for run in app.list()}
    app.close()


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_log_that_is_removed_under_several_is_refused_by_all_until_all_have_let_go(
    path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(custody, "_PATIENCE", 0.2)
    app = make_app(f"sqlite:///{path}")
    known = {app.jobs["send"].enqueue(n=1).id}
    other = start_script(HOLD, path)
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    Path(f"{path}{end}").unlink()

    with pytest.raises(StoreUnavailable, match=rf"w\.db{end} was removed"):
        app.jobs["send"].enqueue(n=2)
    newcomer = make_app(f"sqlite:///{path}")
    with pytest.raises(StoreUnavailable, match=rf"w\.db{end} was removed"):
        newcomer.jobs["send"].enqueue(n=2)
    with pytest.raises(StoreUnavailable, match=rf"w\.db{end} was removed"):
        newcomer.store.schema_version()
    assert not Path(f"{path}{end}").exists()  # nobody has begun a second one

    other.stdin.write("\n")  # it lets go by itself when it is next used
    other.stdin.flush()
    known.add(other.stdout.readline().strip())
    known |= {app.jobs["send"].enqueue(n=3).id, newcomer.jobs["send"].enqueue(n=3).id}
    assert known < {run.id for run in app.list()}
    assert len(app.list()) == len(known) + 1
    other.communicate("")
    app.close()
    newcomer.close()
    raw = apsw.Connection(str(path))
    assert raw.pragma("integrity_check") == "ok"
    raw.close()


def test_store_that_lost_its_log_for_good_is_refused(path: Path) -> None:
    app = make_app(f"sqlite:///{path}")
    app.jobs["send"].enqueue(n=1)
    log = Path(f"{path}-wal")
    log.unlink()
    log.write_bytes(b"somebody else's")

    with pytest.raises(StoreUnavailable, match=r"not the store|older copy"):
        app.jobs["send"].enqueue(n=2)
    app.close()


def test_log_of_others_is_left_alone(path: Path) -> None:
    """Whoever closes a database last moves its log into it, and removes what has its name."""
    sources = Sources.system()
    connection = Connection(path, sources, StoreClock(sources.clock))
    connection.read(lambda _: None)
    log = Path(f"{path}-wal")
    log.unlink()
    log.write_bytes(b"somebody else's")

    connection.close()

    assert log.read_bytes() == b"somebody else's"


def test_index_without_a_log_is_removed_where_nobody_has_the_file_open(path: Path) -> None:
    app = make_app(f"sqlite:///{path}")
    app.jobs["send"].enqueue(n=1)
    app.close()
    Path(f"{path}-shm").write_bytes(b"\0" * 32768)
    app.jobs["send"].enqueue(n=2)
    assert len(app.list()) == 2
    app.close()


def test_symbolic_link_may_go_while_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    app = make_app(f"sqlite:///{tmp_path}/link/w.db")
    made = {app.jobs["send"].enqueue(n=1).id}
    (tmp_path / "link").unlink()  # a link may go: the file is known by its real name
    made.add(app.jobs["send"].enqueue(n=2).id)
    assert {run.id for run in app.list()} == made
    app.close()
    assert {name.name for name in (tmp_path / "real").iterdir()} == {"w.db", "w.db-ballast"}
