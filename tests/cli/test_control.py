"""`windlass cancel`, `windlass retry` and `windlass migrate`, on both stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import fails, make_app, ok, run, work
from tests.conftest import Cluster
from tests.fixtures.postgres import create_database, drop_database
from windlass import Windlass
from windlass.store.queries import load_migrations

LATEST = load_migrations("postgres")[-1].version
NOBODY = "01a1e10b-f770-7fd2-92f1-1ed5f62d63b8"


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose runs are acted upon."""
    found = make_app(url)
    yield found
    found.close()


def test_cancel(url: str, app: Windlass) -> None:
    one, two = app.enqueue("greet"), app.enqueue("greet")

    printed = ok("cancel", one.id, two.id, "--reason", "enough", "--url", url)

    assert printed == f"{one.id} canceled\n{two.id} canceled\n"
    assert (one.refresh().status, one.reason) == ("canceled", "enough")
    assert ok("cancel", one.id, "--url", url) == f"{one.id} canceled\n"


def test_one_refusal_does_not_spare_the_others(url: str, app: Windlass) -> None:
    done = app.enqueue("greet")
    work(app)
    live = app.enqueue("greet")

    result = run("cancel", done.id, NOBODY, live.id, "--url", url)

    assert result.exit_code == 4
    assert result.stdout == f"{live.id} canceled\n"
    refused, missing = result.stderr.splitlines()
    assert refused == (
        f"windlass: Run {done.id} is succeeded: cancel is not possible. "
        f"See `windlass show {done.id}`."
    )
    assert missing.startswith(f"windlass: There is no run {NOBODY}: ")


def test_retry(url: str, app: Windlass) -> None:
    failed = app.enqueue("refuse")
    work(app)

    printed = ok("retry", failed.id, "--max-attempts", "2", "--url", url)

    assert printed == f"{failed.id} queued\n"
    assert failed.refresh().status == "queued"
    assert failed.record.options is not None
    assert failed.record.options.max_attempts == 2


def test_what_cannot_be_retried(url: str, app: Windlass) -> None:
    live = app.enqueue("greet")

    assert "is queued: retry is not possible." in fails(4, "retry", live.id, "--url", url)
    assert "There is no run x: " in fails(3, "retry", "x", "--url", url)
    assert "Bad option max_attempts" in fails(
        2, "retry", live.id, "--max-attempts", "0", "--url", url
    )
    assert fails(2, "retry", "--url", url).startswith("Missing argument 'RUN...'.")


def test_migrate_a_new_file(folder: Path) -> None:
    url = f"sqlite:///{folder}/new.db"

    assert ok("migrate", "--url", url) == f"schema 0 → {LATEST}\n"
    assert ok("migrate", "--url", url) == f"up to date ({LATEST})\n"
    assert ok("migrate", "--check", "--url", url) == f"up to date ({LATEST})\n"


def test_migrate_a_file_that_is_no_database(folder: Path) -> None:
    (folder / "letter.txt").write_text("Dear all, " * 1000)

    for options in ([], ["--check"]):
        told = fails(5, "migrate", *options, "--url", f"sqlite:///{folder}/letter.txt")
        assert told.endswith("letter.txt is not an SQLite database: choose another file.")


@pytest.fixture
def bare(pg_cluster: Cluster) -> Iterator[str]:
    """A PostgreSQL database without a schema."""
    yield create_database(pg_cluster.dsn, "wl_bare")
    drop_database(pg_cluster.dsn, "wl_bare")


def test_migrate_postgresql(bare: str) -> None:
    for arguments in (["migrate", "--check"], ["runs"]):
        assert fails(5, *arguments, "--url", bare) == (
            f"The store has no Windlass schema and this Windlass works with version {LATEST}: "
            "run `windlass migrate`."
        )

    assert ok("migrate", "--url", bare) == f"schema 0 → {LATEST}\n"
    assert ok("migrate", "--url", bare) == f"up to date ({LATEST})\n"
    assert ok("migrate", "--check", "--url", bare) == f"up to date ({LATEST})\n"
    assert ok("runs", "--url", bare) == "There are no runs.\n"
