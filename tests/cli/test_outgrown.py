"""Worker processes on a store that a newer version has migrated under them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.cli.kit import command, started, write_jobs
from tests.cli.test_supervisor import pids
from tests.faults.harness import eventually
from tests.fixtures.outgrown import LATER, outgrow
from windlass import SchemaMismatch, Windlass
from windlass.store.queries import load_migrations

WORKER = command("worker", "--app", "jobs")
TOLD = f"windlass: {SchemaMismatch(LATER, load_migrations('sqlite')[-1].version)}"


@pytest.fixture
def client(folder: Path, url: str) -> Iterator[Windlass]:
    """An application that is on the store of the worker from before it is migrated."""
    write_jobs(folder, url)
    made = Windlass(url)
    made.migrate()
    assert made.list() == []  # it has worked
    yield made
    made.close()


def test_a_worker_says_in_one_sentence_why_it_ends(
    folder: Path, url: str, client: Windlass
) -> None:
    """Also while a handler runs that cannot be told anything."""
    with started(WORKER, folder) as process:
        process.wait_for("worker started")
        client.enqueue("stubborn", {"seconds": 60})
        process.wait_for("handler started")
        outgrow(url, "pump")
        client.store.notify()

        assert process.ends() == 5

    assert process.lines[-1] == TOLD
    assert process.output.count("worker cannot go on") == 1
    assert "Traceback" not in process.output


def test_processes_that_the_schema_outgrew_are_not_started_again(
    folder: Path, url: str, client: Windlass
) -> None:
    with started([*WORKER, "--processes", "2"], folder) as process:
        pids(process, 2)
        outgrow(url, "pump")
        client.store.notify()

        assert process.ends() == 5

    assert process.output.count("worker process started") == 2
    assert process.output.count("outgrown by the schema, not replaced") == 2
    assert process.lines.count(TOLD) == 2
    assert "died" not in process.output


def test_what_still_works_goes_on_where_one_cannot_be_replaced(
    folder: Path, url: str, client: Windlass
) -> None:
    with started([*WORKER, "--processes", "2"], folder) as process:
        one, _ = pids(process, 2)
        outgrow(url, None)  # nothing is missing: who has started may finish
        os.kill(one, signal.SIGKILL)
        process.wait_for("outgrown by the schema, not replaced")
        run = client.enqueue("greet", {})
        eventually(lambda: run.refresh().result, what="the other one works")
        process.send(signal.SIGTERM)

        assert process.ends() == 0

    assert process.output.count("worker process started") == 3
    assert process.lines.count(TOLD) == 1


def test_a_worker_names_the_function_that_is_gone(folder: Path, pg_database: str) -> None:
    """The schema is there, and of the right version."""
    write_jobs(folder, pg_database)
    with psycopg.connect(pg_database) as server:
        server.execute("drop function windlass.cycle")
    with started(WORKER, folder) as process:
        assert process.ends() == 5

    assert process.lines[-1].startswith(
        "windlass: Functions in the store are missing, or not those of this Windlass (function "
        "windlass.cycle("
    )
    assert process.lines[-1].endswith(" does not exist): run `windlass migrate`.")
    assert "Traceback" not in process.output
