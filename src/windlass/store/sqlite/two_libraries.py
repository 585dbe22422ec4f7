"""Does a process have the file open through two SQLite libraries?

That loses locks, see :mod:`.sharing`, which cannot refuse a connection that was there before ours.
Afterwards it can be found: a library maps the log's index into memory once for each process,
whatever the number of its connections. If the beginning of the index is mapped twice in one
process, there are two libraries. Linux shows it for every process that we may look at.
"""

from collections.abc import Iterator
from pathlib import Path

from windlass.domain.checkup import Finding, fine, warning
from windlass.store.sqlite.holder import describe_process

_PROCESSES = Path("/proc")
_BEGINNING = b"00000000"
_OFFSET, _INODE = 2, 4  # of the columns of /proc/PID/maps


def look_at_sharing(path: Path, processes: Path = _PROCESSES) -> Iterator[Finding]:
    """Tell which processes have the file open through two libraries; nothing but on Linux."""
    if not (processes / "self" / "maps").exists():
        return
    index = Path(f"{path}-shm")
    found = [pid for pid in _all(processes) if _mappings(processes / pid, index) > 1]
    for pid in found:
        yield warning(
            f"Process {pid} ({describe_process(int(pid))[0]}) has {path} open through two SQLite "
            "libraries, such as Windlass and Python's module sqlite3: when one of them closes it, "
            "the locks of both are lost, and the file may be damaged.",
            "Let sqlite3, SQLAlchemy or Django use another file, or use app.transaction().",
        )
    if not found:
        yield fine("No process has the file open through two SQLite libraries.")


def _all(processes: Path) -> Iterator[str]:
    return (entry.name for entry in processes.iterdir() if entry.name.isdecimal())


def _mappings(process: Path, index: Path) -> int:
    """How often a process has the beginning of the index in its memory."""
    try:
        inode = str(index.stat().st_ino).encode()
        maps = (process / "maps").read_bytes()
    except OSError:  # not there, or not ours to read
        return 0
    columns = (line.split(None, 5) for line in maps.splitlines() if line.endswith(b"-shm"))
    return sum(line[_OFFSET] == _BEGINNING and line[_INODE] == inode for line in columns)
