"""One of many processes on one SQLite file: writes, or empties the log, for so many seconds.

`python -m tests.faults.programs.hammer write|checkpoint FILE SECONDS`. A writer prints the id of
each run once it is acknowledged; who checkpoints prints how often it emptied the log.
"""

import contextlib
import sys
import time
from itertools import count

import apsw

from tests.fixtures.callers import make_app


def write(path: str, until: float) -> None:
    """Enqueue as fast as it goes."""
    job = make_app(f"sqlite:///{path}").jobs["send"]
    for n in count():  # one at least, however long it took to start
        sys.stdout.write(job.enqueue(n=n).id + "\n")
        if time.monotonic() >= until:
            return


def checkpoint(path: str, until: float) -> None:
    """Copy the log back and start it anew, again and again."""
    connection = apsw.Connection(path)
    emptied = 0
    while time.monotonic() < until:
        for mode in ("passive", "restart", "truncate"):
            with contextlib.suppress(apsw.BusyError):
                ((busy, _, _),) = connection.execute(f"pragma wal_checkpoint({mode})")
                emptied += not busy and mode != "passive"
    sys.stdout.write(f"{emptied}\n")


mode, place, seconds = sys.argv[1:]
{"write": write, "checkpoint": checkpoint}[mode](place, time.monotonic() + float(seconds))
