"""Fills a disk, a small one, and lives through it: FOLDER [BYTES]. Prints what it saw.

The disk is a real one, or one that is said to have so many bytes.
"""

import errno
import sys
from contextlib import suppress
from pathlib import Path

from tests.fixtures.callers import make_app
from tests.fixtures.disk import Disk
from windlass import StoreFull
from windlass.store.sqlite import ballast as ballasts


def refused(app: object) -> bool:
    """Whether a run is refused because there is no room."""
    try:
        app.jobs["send"].enqueue(n=-1)  # type: ignore[attr-defined]
    except StoreFull:
        return True
    return False


def pretend(folder: Path, capacity: int) -> None:
    """Let SQLite and the ballast find no more room than this."""
    disk, real = Disk(), ballasts.reserve

    def reserve(descriptor: int, size: int) -> None:
        if disk.used(folder) + size > capacity:
            raise OSError(errno.ENOSPC, "no room")
        real(descriptor, size)

    disk.capacity, ballasts.reserve = capacity, reserve


folder = Path(sys.argv[1])
if sys.argv[2:]:
    pretend(folder, int(sys.argv[2]))
other = folder / "other"
other.write_bytes(bytes(1536 * 1024))
app = make_app(f"sqlite:///{folder}/w.db")
made = [app.jobs["send"].enqueue(n=0)]
with suppress(StoreFull):
    made.extend(app.jobs["send"].enqueue(n=n) for n in range(100_000))
ballast = folder / "w.db-ballast"
seen = {
    "some": len(made) > 100,
    "reads": len(app.list(limit=1000)) == min(1000, len(made)),
    "reserved": ballast.stat().st_size == 1024 * 1024,
    "canceled": all(run.cancel().status == "canceled" for run in made[:20]),
    "freed": not ballast.exists(),
    "kept": refused(app),
}
other.unlink()
seen["recovered"] = not refused(app)
seen["laid again"] = ballast.exists()
sys.stdout.write(" ".join(name for name, good in seen.items() if not good) or "fine")
