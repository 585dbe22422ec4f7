"""A control group with little memory, where this machine lets us make one.

Root of a machine or of most containers may; others, and containers whose groups are read-only, may
not. Version 2 gives a group the memory controller only if its parent does, and a parent that has
processes of its own cannot: so the parent of our own group is tried as well.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
LIMIT = 64 * 1024 * 1024
_LIMITS = ("memory.max", "memory.limit_in_bytes")  # of version 2 and 1
_KILLS = ("memory.events", "memory.oom_control")


def make_group() -> Path | None:
    """Make a group in which a process that takes more than `LIMIT` is killed by the kernel."""
    for parent in _parents():
        group = parent / f"windlass-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if _limit(group):
            return group
        group.rmdir()
    return None


def remove(group: Path) -> bool:
    """Kill what is left in a group, and remove it; false: somebody is not yet gone."""
    for pid in (group / "cgroup.procs").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def kills_in(group: Path) -> int:
    """How many processes in it the kernel has killed for want of memory."""
    for name in _KILLS:
        if (group / name).exists():
            words = (group / name).read_text().split()
            return int(words[words.index("oom_kill") + 1])
    raise AssertionError(f"{group} does not count")


def _parents() -> Iterator[Path]:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, place = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield ROOT / "memory" / place.lstrip("/")
        elif not controllers:
            for base in (ROOT, ROOT / "unified"):
                own = base / place.lstrip("/")
                yield from (own, own.parent) if own != base else (own,)


def _limit(group: Path) -> bool:
    for name in _LIMITS:
        if (group / name).exists():
            try:
                (group / name).write_text(str(LIMIT))
            except OSError:
                return False
            return True
    return False


def _possible() -> bool:
    if not Path("/proc/self/cgroup").exists():
        return False
    group = make_group()
    if group is not None:
        group.rmdir()
    return group is not None


POSSIBLE = _possible()
