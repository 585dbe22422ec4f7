"""A folder of artifacts, on one machine or on a file system that workers share.

Bytes are written to a file with a name of its own in ``.tmp``, synced to the disk, and renamed;
then the folder is synced. A crash before the rename leaves a file in ``.tmp``, which `clear`
removes.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from windlass.artifacts.place import CHUNK, Kept
from windlass.errors import PlaceUnavailable

_TEMPORARY = ".tmp"


class FolderPlace:
    """Bytes as files: ``folder/tenant/run/id``."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def write(self, key: str, chunks: Iterator[bytes]) -> None:
        """Keep bytes, durably."""
        with self._trouble():
            final = self._path(key)
            final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = self._root / _TEMPORARY
            temporary.mkdir(exist_ok=True, mode=0o700)
            fd, made = tempfile.mkstemp(dir=temporary)
            unfinished = Path(made)
        try:
            with os.fdopen(fd, "wb") as file:
                for chunk in chunks:
                    with self._trouble():
                        file.write(chunk)
                with self._trouble():
                    file.flush()
                    os.fsync(file.fileno())
            with self._trouble():
                unfinished.replace(final)
                for folder in (final.parent, final.parent.parent, self._root):
                    _sync(folder)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise

    @contextmanager
    def read(self, key: str, offset: int, length: int) -> Iterator[Iterator[bytes]]:
        """A part of the bytes, in chunks."""
        with self._trouble():
            fd = os.open(self._path(key), os.O_RDONLY)
        try:
            yield self._chunks(fd, offset, length)
        finally:
            os.close(fd)

    def delete(self, key: str) -> None:
        """Remove a file, and the folder of its run if that is empty now."""
        path = self._path(key)
        with self._trouble(), contextlib.suppress(FileNotFoundError):
            path.unlink()
        with contextlib.suppress(OSError):  # it has other files, or another thread was faster
            path.parent.rmdir()

    def kept(self, tenant: str) -> Iterator[Kept]:
        """All files of a tenant."""
        with self._trouble():
            for path in sorted((self._root / tenant).glob("*/*")):
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    key = path.relative_to(self._root).as_posix()
                    yield Kept(key, _written(path))

    def clear(self, before: datetime) -> int:
        """Remove temporary files that were last written to before then."""
        removed = 0
        with self._trouble():
            for path in (self._root / _TEMPORARY).glob("*"):
                with contextlib.suppress(FileNotFoundError):
                    if _written(path) < before:
                        path.unlink()
                        removed += 1
        return removed

    def _path(self, key: str) -> Path:
        path = self._root.joinpath(key)
        # A pointer may come from anywhere: it must not lead out of the folder.
        if ".." in key.split("/") or not path.is_relative_to(self._root):
            raise FileNotFoundError(key)
        return path

    def _chunks(self, fd: int, offset: int, length: int) -> Iterator[bytes]:
        end = offset + length
        while offset < end:
            with self._trouble():
                chunk = os.pread(fd, min(CHUNK, end - offset), offset)
            if not chunk:
                return
            offset += len(chunk)
            yield chunk

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """Name the folder in the errors of the system."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise PlaceUnavailable(str(self._root), error.strerror or str(error)) from error


def _written(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _sync(folder: Path) -> None:
    """Let a new name outlive a power cut."""
    with contextlib.suppress(FileNotFoundError):  # gone again: then there is nothing to keep
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
