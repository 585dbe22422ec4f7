"""What is in a folder of job files, read once: everything later works on this reading.

A file that cannot or must not be read is an error of that file alone. Links may point to other
files of the folder, never out of it, and what anybody on the machine may write is not run.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from windlass.domain.origin import FileText, Folder
from windlass.errors import JobFileError

ENDING = ".py"
INIT = "__init__"
LARGEST = 1024 * 1024
"""The most bytes of one file: what is larger is data, or a mistake."""

Parts = tuple[str, ...]
"""The place of a module under the folder: ("reports", "daily")."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file, or the error of reading it."""

    file: Path
    parts: Parts
    data: bytes = b""
    digest: str = ""
    error: JobFileError | None = None

    @property
    def is_job(self) -> bool:
        """Whether it is a job and not a helper: no part of its place begins with `_`."""
        return not any(part.startswith("_") for part in self.parts)

    @property
    def name(self) -> str:
        """The job's name: the place with dots."""
        return ".".join(self.parts)


@dataclass(frozen=True)
class Reading:
    """All files of a folder at one moment, by place; the folder may be missing."""

    folder: Path
    sources: Mapping[Path, Source]

    @cached_property
    def modules(self) -> Mapping[Parts, Source]:
        """The files that can be imported: `x/__init__.py` is at the place of `x`."""
        found = {s.parts: s for s in self.sources.values() if s.parts[-1] != INIT}
        return found | {s.parts[:-1]: s for s in self.sources.values() if s.parts[-1] == INIT}

    @cached_property
    def packages(self) -> frozenset[Parts]:
        """The folders."""
        return frozenset(
            source.parts[:depth]
            for source in self.sources.values()
            for depth in range(len(source.parts))
        )

    def holds(self, module: str, names: Sequence[str]) -> bool:
        """Whether an import of a module, or of names from it, means something in this folder."""
        place = tuple(module.split(".")[1:])
        if place:
            return place in self.modules or place in self.packages
        inside = any((name,) in self.modules or (name,) in self.packages for name in names)
        return inside or () in self.modules or not names

    @cached_property
    def text(self) -> Folder:
        """All of it, for another process."""
        good = [s for s in self.sources.values() if s.error is None]
        files = tuple(FileText(os.fsencode(s.file), s.parts, s.data) for s in good)
        return Folder(folder=os.fsencode(self.folder), digest=self.digest, files=files)

    @property
    def digest(self) -> str:
        """Changes when anything changes."""
        lines = [f"{s.file}\0{s.digest or s.error}" for s in self.sources.values()]
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def read_folder(folder: Path) -> Reading:
    """Read every file; a folder that is not there has none."""
    root = folder.resolve()
    return Reading(root, {source.file: source for source in _walk(root, root, ())})


def _walk(root: Path, folder: Path, above: Parts) -> Iterator[Source]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return  # missing, or gone while we looked: then it is not there
    except OSError as error:
        why = f"the folder cannot be read: {error.strerror}"
        yield _broken(folder, above or (folder.name,), why)
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        path = Path(entry.path)
        if path.is_dir():
            if entry.is_symlink():
                yield _broken(path, (*above, entry.name), "it is a link to a folder: copy it here")
            else:
                yield from _walk(root, path, (*above, entry.name))
        elif entry.name.endswith(ENDING):
            source = _read(root, path, (*above, entry.name.removesuffix(ENDING)))
            if source is not None:
                yield source


def _read(root: Path, path: Path, parts: Parts) -> Source | None:
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root):
            return _broken(path, parts, f"it is a link out of the folder, to {real}")
        status = real.stat()
        if not stat.S_ISREG(status.st_mode):
            return _broken(path, parts, "it is not a regular file")
        if os.name == "posix" and status.st_mode & stat.S_IWOTH:
            why = "everybody on this machine may change it, so it is not run: `chmod o-w` it"
            return _broken(path, parts, why)
        if status.st_size > LARGEST:
            return _broken(path, parts, f"it has {status.st_size:,} bytes, the most is {LARGEST:,}")
        data = real.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            return _broken(path, parts, "it is a link to nothing")
        return None  # gone while we looked
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before 3.13
        why = getattr(error, "strerror", None) or str(error)
        return _broken(path, parts, f"it cannot be read: {why}")
    return Source(path, parts, data, hashlib.sha256(data).hexdigest())


def _broken(path: Path, parts: Parts, why: str) -> Source:
    return Source(path, parts, error=JobFileError(str(path), None, why))
