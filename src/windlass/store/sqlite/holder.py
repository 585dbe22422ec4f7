"""Who has the write lock? The kernel knows which process has locked a byte of the log's index.

It is asked by a child process, which opens that file and ends: when this process closed a
descriptor of it, all locks would be dropped that SQLite has for us there. Looked at for about a
second: a lock that changes hands, or is free once, is in nobody's way.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from windlass.domain.checkup import Finding, fine, note, warning

_SAMPLES = 20
_PAUSE = 0.05
_PATIENCE = 10.0  # for a process to start, too

# Byte 120 of the index is what writers lock (SQLite's "WAL-index format"). `struct flock` begins
# with its type on Linux, and ends with it on macOS and the BSDs.
_ASK = """
import fcntl, struct, sys, time
name, samples, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
linux = sys.platform == "linux"
form, pid = ("hhqqi", 4) if linux else ("qqihh", 2)
lock = (fcntl.F_WRLCK, 0, 120, 1, 0) if linux else (120, 1, 0, fcntl.F_WRLCK, 0)
free = fcntl.F_UNLCK
holders = set()
with open(name, "rb+") as file:
    for _ in range(samples):
        found = struct.unpack(form, fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(form, *lock)))
        holders.add(None if found[0 if linux else 3] == free else found[pid])
        if len(holders) > 1 or None in holders:
            break
        time.sleep(pause)
print("free" if len(holders) > 1 or None in holders else holders.pop())
"""

_FREE = "free"
_STATES = {"T": "is stopped", "t": "is held by a debugger"}


def look_at_lock(path: Path) -> Iterator[Finding]:
    """Tell which process keeps all others from writing."""
    index = Path(f"{path}-shm")
    if not index.exists():
        yield fine("Nobody holds the write lock.")  # nor has the file open
        return
    told = _ask(index)
    if told is None:
        advice = "`lsof` names the processes that have it open."
        yield note("It cannot be told who holds the write lock.", advice)
    elif told == _FREE:
        yield fine("Nobody holds the write lock for long.")
    else:
        yield _held(int(told))


def _ask(index: Path) -> str | None:
    """The process that has the lock the whole time, or that it is free; None: it is not known."""
    command = [sys.executable, "-I", "-S", "-c", _ASK, str(index), str(_SAMPLES), str(_PAUSE)]
    try:
        told = subprocess.run(
            command, capture_output=True, check=False, timeout=_PATIENCE, text=True
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return told.stdout.strip() or None


def _held(pid: int) -> Finding:
    seconds = f"{_SAMPLES * _PAUSE:g} s"
    if pid <= 0:
        return warning(
            f"A process of another container has held the write lock for {seconds}.",
            "Nobody else can write. Look in the other containers that share the file.",
        )
    command, state = describe_process(pid)
    stopped = f", and {_STATES[state]}" if state in _STATES else ""
    text = f"Process {pid} ({command}) has held the write lock for {seconds}{stopped}."
    if stopped:
        return warning(text, f"Nobody else can write. Let it go on (kill -CONT {pid}), or end it.")
    advice = (
        "Nobody else can write. It is in a long transaction, or a handler holds Python's lock: "
        f"look at it (py-spy dump --pid {pid}), or end it."
    )
    return warning(text, advice)


def describe_process(pid: int) -> tuple[str, str]:
    """A process's command line and the letter of its state, as far as they can be read."""
    try:
        command = (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        state, command = _ask_ps(pid)
    return command.strip() or "unknown", state[:1]


def _ask_ps(pid: int) -> tuple[str, str]:
    command = ["ps", "-o", "stat=", "-o", "args=", "-p", str(pid)]
    try:
        told = subprocess.run(
            command, capture_output=True, check=False, timeout=_PATIENCE, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    state, _, rest = told.stdout.strip().partition(" ")
    return state, rest
