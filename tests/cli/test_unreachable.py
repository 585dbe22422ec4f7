"""A database that cannot be reached is said at once, not when the patience with it is over."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import command, started, write_jobs
from windlass.store.postgres.outage import Outage

REFUSED = "postgresql://me:secret@127.0.0.1:1/none"


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing, as one behind a firewall."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"postgresql://me:secret@127.0.0.1:{server.getsockname()[1]}/none"


def test_a_command_that_goes_on_trying_says_so(folder: Path) -> None:
    with started(command("enqueue", "greet", "--url", REFUSED), folder) as process:
        line = process.wait_for("Still trying; Ctrl-C ends it.")
        assert process.process.poll() is None  # it does go on
        process.send(signal.SIGINT)
        assert process.ends() == 130
    assert line.startswith("windlass: PostgreSQL cannot be reached: ")
    assert "secret" not in process.output


def test_a_worker_says_so_while_it_waits(folder: Path) -> None:
    write_jobs(folder, REFUSED)
    with started(command("worker", "--app", "jobs"), folder) as process:
        line = process.wait_for("PostgreSQL cannot be reached, still trying")
        assert "waiting for the store" not in process.output  # said when the patience is over
        process.send(signal.SIGTERM)
        assert process.ends() == 0
    assert "store=postgresql://me@127.0.0.1:1/none" in line
    assert "Connection refused" in line
    assert "secret" not in process.output


@pytest.mark.parametrize("arguments", [("runs",), ("enqueue", "greet")])
def test_a_command_says_that_it_waits_for_an_answer(
    folder: Path, silent: str, arguments: tuple[str, ...]
) -> None:
    with started(command(*arguments, "--url", silent), folder) as process:
        line = process.wait_for("Waiting for an answer from postgresql://me@127.0.0.1:")
        process.send(signal.SIGINT)
        process.insist(signal.SIGKILL)
    assert line.endswith("/none; Ctrl-C ends it.")
    assert "secret" not in process.output


def test_a_worker_says_that_it_waits_for_an_answer(folder: Path, silent: str) -> None:
    write_jobs(folder, silent)
    with started(command("worker", "--app", "jobs"), folder) as process:
        process.wait_for("waiting for an answer from the store")
        process.send(signal.SIGTERM)
        assert process.ends() == 0
    assert "secret" not in process.output


def test_an_outage_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage("postgresql://me@db/shop")
    outage.end()
    for _ in range(2):
        outage.begin("refused")
        outage.begin("refused")
        outage.end()
        outage.end()

    said = [record.getMessage() for record in caplog.records]
    assert said == ["PostgreSQL cannot be reached, still trying", "PostgreSQL is reached again"] * 2
