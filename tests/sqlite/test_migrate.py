"""The schema: made at first use, by one of many, and never by an older program."""

from pathlib import Path

import apsw
import pytest

from tests.sqlite.kit import new_run, start_script
from windlass.errors import SchemaMismatch, StoreError
from windlass.sources import ManualSources
from windlass.store.queries import Script, load_migrations, load_queries
from windlass.store.sqlite import migrate
from windlass.store.sqlite.store import SqliteStore

LATEST = load_migrations("sqlite")[-1].version


def test_migrate_tells_the_versions(store: SqliteStore) -> None:
    assert store.migrate() == (0, LATEST, ())
    assert store.migrate() == (LATEST, LATEST, ())


def test_first_use_makes_the_tables(store: SqliteStore, sources: ManualSources) -> None:
    (made,) = store.run(store.operations.enqueue([new_run(sources)]))
    assert made.created
    assert store.migrate() == (LATEST, LATEST, ())


async def test_first_use_may_be_a_read_on_the_loop(store: SqliteStore) -> None:
    assert await store.arun(store.operations.list_workers()) == []
    assert store.migrate() == (LATEST, LATEST, ())


def test_newer_schema_asks_for_an_upgrade(store: SqliteStore, path: Path) -> None:
    store.migrate()
    store.close()
    raw = apsw.Connection(str(path))
    raw.execute("insert into schema_version values (?, 'later', 0)", (LATEST + 1,))
    raw.close()
    with pytest.raises(SchemaMismatch, match="upgrade Windlass"):
        store.run(store.operations.list_workers())
    with pytest.raises(SchemaMismatch):
        store.migrate()


def test_migration_that_fails_leaves_nothing(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Script(LATEST + 1, "broken", "create table half (x); insert into nowhere values (1)")
    scripts = [*load_migrations("sqlite"), broken]
    store.migrate()
    monkeypatch.setattr(migrate, "migrations", lambda: scripts)
    with pytest.raises(StoreError, match="nowhere"):
        store.migrate()
    raw = apsw.Connection(str(path))
    assert not raw.table_exists("main", "half")
    assert raw.table_exists("main", "runs")
    assert raw.execute("select max(version) from schema_version").get == LATEST
    raw.close()


def test_new_file_is_made_by_one_commit_or_not_at_all(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Script(LATEST + 1, "broken", "insert into nowhere values (1)")
    scripts = [*load_migrations("sqlite"), broken]
    with monkeypatch.context() as patched:
        patched.setattr(migrate, "migrations", lambda: scripts)
        with pytest.raises(StoreError, match="nowhere"):
            store.migrate()
    raw = apsw.Connection(str(path))
    assert raw.execute("select count(*) from sqlite_schema").get == 0
    raw.close()
    assert store.migrate() == (0, LATEST, ())


OPEN_AT_ONCE = """
import sys
from windlass.store.sqlite.store import SqliteStore

for line in sys.stdin:  # one file after another: starting a process takes longer than opening one
    store = SqliteStore(line.strip())
    store.run(store.operations.list_workers())
    print(tuple(store.migrate()), flush=True)
    store.close()
"""


def test_many_processes_may_open_new_files_at_once(path: Path) -> None:
    paths = [path.with_name(f"{n}.db") for n in range(20)]
    processes = [start_script(OPEN_AT_ONCE) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("".join(f"{each}\n" for each in paths))
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=50)
        assert out.splitlines() == [str((LATEST, LATEST, ()))] * len(paths), err
    for each in paths:
        assert versions_in(each) == [script.version for script in load_migrations("sqlite")]


def versions_in(path: Path) -> list[object]:
    raw = apsw.Connection(str(path))
    found = raw.execute("select version from schema_version order by version").fetchall()
    raw.close()
    return [version for (version,) in found]


def test_every_statement_can_be_prepared(store: SqliteStore, path: Path) -> None:
    store.migrate()
    raw = apsw.Connection(str(path))
    raw.execute(load_queries("sqlite")["arm"])
    skipped = {"arm", "settings", "begin_write", "begin_read", "commit", "rollback", "savepoint"}
    skipped |= {"release_savepoint", "undo_savepoint"}
    for name, text in load_queries("sqlite").items():
        if name not in skipped:
            raw.execute(f"explain {text}", _Anything())
    raw.close()


class _Anything(dict[str, object]):
    """A value for every parameter."""

    def __missing__(self, name: str) -> object:
        return "[]" if name in ("ids", "jobs", "queues") else None


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("claimable", "SEARCH r USING PRIMARY KEY (queue=? AND (rank,ready_at,id)>(?,?,?))"),
        ("window_end", "SEARCH r USING PRIMARY KEY (queue=? AND (rank,ready_at,id)>(?,?,?))"),
        ("ready_queues", "SEARCH r USING PRIMARY KEY (queue>?)"),
        ("due_timers", "timers_by_due (due_at<?)"),
        ("expired_ready", "ready_by_expiry (expires_at<?)"),
        ("expired_timers", "timers_by_expiry (expires_at<?)"),
        ("lost_workers", "leases_by_worker (worker_no>?)"),
        ("worker_leases", "leases_by_worker (worker_no=?)"),
        ("list_events", "(tenant=? AND subject=? AND seq>?)"),
        ("walk_all", "(tenant=? AND id>? AND id<?)"),
        ("walk_job", "runs_by_job (tenant=? AND job=? AND id>? AND id<?)"),
        ("walk_key", "runs_by_key (tenant=? AND key=? AND id>? AND id<?)"),
        ("walk_schedule", "runs_by_schedule (tenant=? AND schedule=? AND id>? AND id<?)"),
        ("walk_queued", "ready_by_id (tenant=? AND id>? AND id<?)"),
        ("walk_running", "SEARCH p USING PRIMARY KEY (tenant=? AND id>? AND id<?)"),
        ("walk_scheduled", "SEARCH p USING PRIMARY KEY (tenant=? AND id>? AND id<?)"),
        ("walk_failures", "failures_by_status (tenant=? AND status=? AND id>? AND id<?)"),
        ("walk_tag", "SEARCH g USING PRIMARY KEY (tenant=? AND tag=? AND id>? AND id<?)"),
    ],
)
def test_statement_walks_its_index_and_sorts_nothing(
    store: SqliteStore, path: Path, name: str, plan: str
) -> None:
    store.migrate()
    raw = apsw.Connection(str(path))
    text = load_queries("sqlite")[name]
    steps = [step for *_, step in raw.execute(f"explain query plan {text}", _Anything())]
    assert any(plan in step for step in steps), steps
    assert not any("USE TEMP B-TREE" in step for step in steps), steps
    raw.close()
