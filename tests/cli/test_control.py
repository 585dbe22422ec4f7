"""`windlass cancel`, `retry`, `reschedule` and `migrate`, on both stores."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
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


def test_pause_and_resume(url: str, app: Windlass) -> None:
    ready, later = app.enqueue("greet"), app.enqueue("greet", delay="1h")

    printed = ok("pause", ready.id, later.id, "--reason", "a break", "--url", url)

    assert printed == f"{ready.id} paused\n{later.id} paused\n"
    assert ok("pause", ready.id, "--url", url) == f"{ready.id} paused\n"
    assert "paused" in ok("runs", "--url", url)
    assert "a break" in ok("show", ready.id, "--events", "--url", url)
    printed = ok("resume", ready.id, later.id, "--url", url)
    assert printed == f"{ready.id} queued\n{later.id} scheduled\n"


def test_audit_says_who_did_what(url: str, app: Windlass) -> None:
    one = app.enqueue("greet")
    ok("pause", one.id, "--as", "ann", "--reason", "a break", "--url", url)
    ok("runs", "cancel", "--job", "greet", "--as", "bob", "--url", url)

    lines = ok("audit", "--url", url).splitlines()

    assert [line.split()[2:5] for line in lines] == [
        ["bob", "cancel", one.id],
        ["ann", "pause", one.id],
    ]
    assert ok("audit", one.id[:13], "--by", "ann", "--url", url).split()[-2:] == ["a", "break"]
    assert json.loads(ok("audit", "--json", "--url", url))[0]["actor"] == "bob"
    nobody = ok("audit", "--by", "nobody", "--url", url)
    assert nobody in ("", "Nobody did anything.\n")


def test_terminate(url: str, app: Windlass) -> None:
    run_ = app.enqueue("greet")

    assert ok("terminate", run_.id, "--reason", "stuck", "--url", url) == f"{run_.id} canceled\n"

    assert run_.refresh().reason == "stuck"


def test_restart(url: str, app: Windlass) -> None:
    run_ = app.enqueue("greet")
    run_.cancel()

    assert ok("restart", run_.id, "--url", url) == f"{run_.id} queued\n"

    message = fails(4, "restart", run_.id, "--from", "process/encode", "--url", url)
    assert "has recorded no step 'process/encode'" in message


def test_an_ended_run_cannot_be_paused(url: str, app: Windlass) -> None:
    done = app.enqueue("greet")
    work(app)
    for verb in ("pause", "resume", "terminate"):
        result = run(verb, done.id, "--url", url)
        assert result.exit_code == 4
        assert (
            f"Run {done.id} is succeeded: {verb} is for runs that have not ended." in result.stderr
        )


def test_many_are_paused_resumed_and_terminated(url: str, app: Windlass) -> None:
    for _ in range(3):
        app.enqueue("greet")
    filters = ("--job", "greet", "--url", url)
    assert ok("runs", "pause", *filters) == "3 runs paused\n"
    assert ok("runs", "resume", *filters) == "3 runs resumed\n"
    assert ok("runs", "terminate", *filters) == "3 runs terminated\n"


def test_one_refusal_does_not_spare_the_others(url: str, app: Windlass) -> None:
    done = app.enqueue("greet")
    work(app)
    live = app.enqueue("greet")

    result = run("cancel", done.id, NOBODY, live.id, "--url", url)

    assert result.exit_code == 4
    assert result.stdout == f"{live.id} canceled\n"
    refused, missing = result.stderr.splitlines()
    assert refused == (
        f"windlass: Run {done.id} is succeeded: cancel is for runs that have not ended. "
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

    assert "is queued: retry is for failed, canceled and stale runs." in fails(
        4, "retry", live.id, "--url", url
    )
    assert "There is no run x: " in fails(3, "retry", "x", "--url", url)
    assert "Invalid value for '--max-attempts': 0 is not" in fails(
        2, "retry", live.id, "--max-attempts", "0", "--url", url
    )
    assert fails(2, "retry", "--url", url).startswith("Missing argument 'RUN...'.")


def test_reschedule(url: str, app: Windlass) -> None:
    failed = app.enqueue("refuse")
    work(app)
    waits = app.enqueue("greet")

    arguments = [waits.id, failed.id, "--at", "2090-01-31T12:00Z", "--url", url]
    printed = ok("reschedule", *arguments)

    assert printed == (
        f"{waits.id} scheduled for 2090-01-31 12:00:00Z\n"
        f"{failed.id} scheduled for 2090-01-31 12:00:00Z\n"
    )
    due = datetime(2090, 1, 31, 12, tzinfo=UTC)
    assert waits.refresh().due_at == failed.refresh().due_at == due
    assert re.search(r"rescheduled +at 2090-01-31T12:00:00Z", ok("show", waits.id, "--url", url))

    assert ok("reschedule", waits.id, "--delay", "0", "--url", url) == f"{waits.id} queued\n"
    ok("reschedule", waits.id, "--delay", "1h30m", "--url", url)
    moved = waits.refresh()
    assert moved.due_at is not None
    assert moved.due_at - moved.updated_at == timedelta(minutes=90)


def test_what_cannot_be_rescheduled(url: str, app: Windlass) -> None:
    done = app.enqueue("greet")
    work(app)
    live = app.enqueue("greet", expires="1h")

    result = run("reschedule", done.id, NOBODY, live.id, "--delay", "59m", "--url", url)

    assert result.exit_code == 4
    assert result.stdout.startswith(f"{live.id} scheduled for ")
    refused, missing = result.stderr.splitlines()
    assert refused == (
        f"windlass: Run {done.id} is succeeded: "
        "reschedule is for runs that wait, and for failed and canceled ones. "
        f"See `windlass show {done.id}`."
    )
    assert missing.startswith(f"windlass: There is no run {NOBODY}: ")

    told = fails(4, "reschedule", live.id, "--delay", "2h", "--url", url)
    assert told.startswith(f"Run {live.id} is over at ")
    assert told.endswith(
        f": choose an earlier time, or a later expiry or deadline. See `windlass show {live.id}`."
    )
    assert "There is no run x: " in fails(3, "reschedule", "x", "--delay", "0", "--url", url)
    for when in ([], ["--delay", "1h", "--at", "2090-01-31"]):
        told = fails(2, "reschedule", live.id, *when, "--url", url)
        assert told.startswith("Give either --at or --delay.")
    for option, value in (("--delay", "soon"), ("--delay", "-1s"), ("--at", "tomorrow")):
        assert option in fails(2, "reschedule", live.id, option, value, "--url", url)
    late = ["--at", "9999-12-31T12:00Z"]
    assert "the last day is 9999-12-30" in fails(2, "reschedule", live.id, *late, "--url", url)


def test_migrate_a_new_file(folder: Path) -> None:
    url = f"sqlite:///{folder}/new.db"

    assert ok("migrate", "--url", url) == f"{url}: schema 0 → {LATEST}\n"
    assert ok("migrate", "--url", url) == f"{url}: up to date ({LATEST})\n"
    assert ok("migrate", "--check", "--url", url) == f"{url}: up to date ({LATEST})\n"


def test_migrate_a_file_that_is_no_database(folder: Path) -> None:
    (folder / "letter.txt").write_text("Dear all, " * 1000)

    for options in ([], ["--check"]):
        told = fails(5, "migrate", *options, "--url", f"sqlite:///{folder}/letter.txt")
        assert told.endswith("letter.txt is not an SQLite database: choose another file.")


def test_reprioritize(url: str) -> None:
    app = make_app(url)
    run = app.enqueue("greet")
    told = ok("reprioritize", run.id, "--priority", "7", "--queue", "fast", "--url", url)
    assert told == f"{run.id} queued in fast with priority 7\n"
    told = fails(2, "reprioritize", run.id, "--url", url)
    assert told.startswith("Give --priority, --queue, or both.")
    run.cancel()
    refused = fails(4, "reprioritize", run.id, "--priority", "1", "--url", url)
    assert refused.startswith(f"Run {run.id} is canceled: reprioritize is for runs that wait.")
    app.close()


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

    place = Windlass(bare).store.place
    assert ok("migrate", "--url", bare) == f"{place}: schema 0 → {LATEST}\n"
    assert ok("migrate", "--url", bare) == f"{place}: up to date ({LATEST})\n"
    assert ok("migrate", "--check", "--url", bare) == f"{place}: up to date ({LATEST})\n"
    assert run("runs", "--url", bare).stderr == "There are no runs.\n"


def test_migrate_mends_functions(pg_database: str) -> None:
    with psycopg.connect(pg_database) as conn:
        conn.execute("drop function windlass.retire")
        conn.execute("alter function windlass.now stable")

    assert fails(5, "migrate", "--check", "--url", pg_database) == (
        "Functions in the store are missing, or not those of this Windlass (windlass.now() and 1 "
        "more): run `windlass migrate`."
    )
    assert ok("migrate", "--url", pg_database).splitlines() == [
        f"{Windlass(pg_database).store.place}: up to date ({LATEST})",
        "mended windlass.now()",
        "mended windlass.retire(text)",
    ]
    assert "up to date" in ok("migrate", "--check", "--url", pg_database)
