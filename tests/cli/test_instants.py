"""`windlass worker`, told to stop at any instant of its start: it ends with 0."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cli.instants import Instant
from tests.cli.kit import PATIENCE, Process, command, ok, ok_json, started, write_jobs
from tests.faults.harness import eventually

WORKER = command("worker", "--app", "jobs")
SUPERVISOR = [*WORKER, "--processes", "2"]

# What comes before `main` is Python's own; `windlass worker` alone can do nothing about it.
START = [Instant("__main__.py:main", 3), Instant("cli/__init__.py:get_command")]
HANDLERS = [Instant("cli/signals.py:__init__", line) for line in (6, 8, 10)]
SERVING = [
    Instant("logs.py:<module>", 5),
    Instant("cli/loading.py:application"),
    *(Instant("cli/signals.py:during", line) for line in (6, 8, 11)),
    Instant("cli/serving.py:_work"),
    Instant("engine/hub.py:register"),
]
SUPERVISING = [
    Instant("logs.py:<module>", 5),
    Instant("cli/worker.py:_supervise", 5),
    *(Instant("cli/supervisor.py:_start_due", line) for line in (4, 5)),
    *(Instant("cli/supervisor.py:_open", line) for line in (3, 5, 6)),
    Instant("cli/supervisor.py:_pause", 2),
]
ROLES = {
    "worker alone": (
        WORKER,
        "boss",
        [*START, *HANDLERS, Instant("cli/worker.py:worker", 3), *SERVING],
    ),
    "supervisor": (SUPERVISOR, "boss", [START[0], *HANDLERS[-1:], *SUPERVISING]),
    "worker of a supervisor": (
        SUPERVISOR,
        "worker",
        [Instant("__main__.py:main"), HANDLERS[1], *SERVING],
    ),
}
TOGETHER = 4


@contextmanager
def busy_machine() -> Iterator[None]:
    """A process beside us that does nothing but take time."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def told_at(
    instants: Sequence[Instant], arguments: list[str], role: str, folder: Path
) -> dict[str, tuple[int, str]]:
    """How each process ended, and what it printed, of those that did not end well."""
    with ExitStack() as stack:
        processes: list[Process] = [
            stack.enter_context(started(arguments, folder, instant.environ(role, folder)))
            for instant in instants
        ]
        flags = [instant.flag(folder) for instant in instants]
        waiting = dict(zip(flags, processes, strict=True))
        eventually(lambda: not tell_those_there(waiting), within=2 * PATIENCE, what=f"{waiting}")
        ends = [process.ends() for process in processes]
    found = zip(instants, ends, [process.output for process in processes], strict=True)
    return {str(i): (code, text) for i, code, text in found if code or "Traceback" in text}


def tell_those_there(waiting: dict[Path, Process]) -> dict[Path, Process]:
    """Send the signal to those that have come to their line; return the others."""
    for flag in [flag for flag in waiting if flag.exists()]:
        waiting.pop(flag).send(signal.SIGTERM)
        flag.with_name(f"{flag.name}.sent").touch()
    for flag, process in waiting.items():
        assert process.process.poll() is None, f"it has not come to {flag}: {process.output}"
    return waiting


@pytest.mark.timeout(180)
@pytest.mark.parametrize("role", ROLES)
def test_a_signal_at_any_instant_of_the_start_ends_it_with_0(folder: Path, role: str) -> None:
    store = f"sqlite:///{folder}/windlass.db"
    write_jobs(folder, store)
    ok("migrate", "--url", store)
    arguments, who, instants = ROLES[role]
    # Four at a time keep the machine busy; the long form has a process more that does so.
    for first in range(0, len(instants), TOGETHER):
        assert told_at(instants[first : first + TOGETHER], arguments, who, folder) == {}
    assert ok_json("workers", "--url", store, "--json") == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("role", ROLES)
def test_a_signal_at_every_instant_of_the_start_ends_it_with_0(
    url: str, folder: Path, role: str
) -> None:
    write_jobs(folder, url)
    arguments, who, _ = ROLES[role]
    instants = [Instant("*", line) for line in range(5 if who == "boss" else 1, 3000, 37)]
    with busy_machine():
        for first in range(0, len(instants), TOGETHER):
            assert told_at(instants[first : first + TOGETHER], arguments, who, folder) == {}
