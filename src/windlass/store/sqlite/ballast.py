"""Space beside the file that is let go when the disk is full.

On a full disk SQLite can commit nothing, not even what would make room or end the work that is
under way. So a file of known size is kept beside the database. When a commit finds no room, what
adds work (an enqueue, a slot of a schedule) is refused, and for everything else (finishes,
cancels, deletions, renewals) the ballast is let go and the call is made again.

Its absence is the sign, for every process on the file, that the disk was full: work is added again
once the ballast could be laid again. So the freed space is never eaten by new work.
"""

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from windlass.errors import StoreFull

log = logging.getLogger(__name__)

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class Ballast:
    """The file ``<database>-ballast``, of ``size`` bytes; none if that is 0."""

    def __init__(self, database: Path, size: int, prepare: Callable[[], None]) -> None:
        self._database = database
        self._prepare = prepare  # makes the database, or refuses to
        self._path = database.with_name(database.name + "-ballast")
        self._name = str(self._path)  # looked for at each enqueue: a path is slow to be asked
        self._size = size

    def lay(self) -> None:
        """Make it where it is not there; raises StoreFull where there is no room for it."""
        if not self._size or os.path.exists(self._name):  # noqa: PTH110
            return
        self._prepare()  # nothing is laid beside a file that will be refused
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as error:
            self._judge(error)  # another process was quicker, or SQLite itself will complain
            return
        try:
            reserve(descriptor, self._size)
        except OSError as error:
            self._path.unlink(missing_ok=True)
            self._judge(error)  # a file system that cannot do it has no ballast
        finally:
            os.close(descriptor)

    def drop(self) -> bool:
        """Let it go; false where it is gone already."""
        try:
            self._path.unlink()
        except OSError:
            return False
        log.warning("the disk is full: ballast let go", extra={"file": str(self._database)})
        return True

    def _judge(self, error: OSError) -> None:
        if error.errno in _NO_ROOM:
            raise StoreFull(
                f"There is no room left for {self._database}: free some disk space."
            ) from error


def reserve(descriptor: int, size: int) -> None:
    """Make a file take up so many bytes of the disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, bytes(size))
