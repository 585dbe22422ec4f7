"""The files that the code of an application comes from, and whether they are still the same."""

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from windlass.config import find_file
from windlass.modules import is_library
from windlass.sources import SystemClock

Stamp = tuple[int, ...]

_COARSE = 20_000_000  # nanoseconds by which the time of a file may lag behind the clock
_UNKNOWN: Stamp = (-1,)  # of a file that has changed since it was read


def loaded_files(error: BaseException | None = None) -> frozenset[str]:
    """The files of all modules that this process has imported, apart from libraries; and those
    that an error of an import went through, with windlass.toml.

    Job files have a watch of their own: their modules have private names.
    """
    modules = sys.modules.copy()  # in one step: modules of job files leave as garbage, at any time
    found = {
        file
        for name, module in modules.items()
        if isinstance(file := getattr(module, "__file__", None), str) and "@" not in name
    }
    found.update(_files_of(error))
    own = {os.path.abspath(f) for f in found if f.endswith(".py") and not is_library(f)}  # noqa: PTH100
    settings = find_file(Path.cwd())
    return frozenset(own if settings is None else own | {str(settings)})


def _files_of(error: BaseException | None) -> Iterator[str]:
    """A module whose import has failed is not among the modules any more."""
    while error is not None:
        if isinstance(error, SyntaxError) and error.filename is not None:
            yield error.filename
        trace = error.__traceback__
        while trace is not None:
            yield trace.tb_frame.f_code.co_filename
            trace = trace.tb_next
        error = error.__cause__ or error.__context__


class ProjectFiles:
    """Files as a process found them when it was started.

    A look costs a stat for each, so there is nothing to install, and it works on every file system.
    """

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._folders: dict[str, frozenset[str]] = {}
        self._since = 0
        self._seen: dict[str, Stamp] = {}

    def begin(self) -> None:
        """Remember how things are: a process is about to read them."""
        self._since = int(SystemClock().now().timestamp() * 1e9) - _COARSE
        self._stamps = {file: _stamp(file) for file in self._stamps}
        self._folders = {folder: _names(folder) for folder in self._folders}
        self._seen = {}

    def add(self, files: Iterable[str]) -> None:
        """Look at these too; one that was written after the beginning counts as changed."""
        for file in set(files) - self._stamps.keys():
            stamp = _stamp(file)
            late = len(stamp) > 1 and stamp[0] > self._since
            self._stamps[file] = _UNKNOWN if late else stamp
            folder = os.path.dirname(file)  # noqa: PTH120 - they are compared as text
            self._folders.setdefault(folder, _names(folder))

    def changed(self, *, new_too: bool) -> Collection[str]:
        """The files that have changed, once nobody is writing them any more; else none.

        `new_too`: also files that have come or gone beside them. A module that was missing is one.
        """
        found = {f: now for f, was in self._stamps.items() if (now := _stamp(f)) != was}
        if new_too:
            for folder, names in self._folders.items():
                for name in _names(folder) ^ names:
                    path = f"{folder}/{name}"
                    found[path] = _stamp(path)
        settled, self._seen = found == self._seen, found
        return list(found) if settled else []


def _stamp(file: str) -> Stamp:
    try:
        status = os.stat(file)  # noqa: PTH116 - many files, several times a second
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _names(folder: str) -> frozenset[str]:
    """What may be a module."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - as above
    except OSError:
        return frozenset()
    return frozenset(n for n in names if n.endswith(".py") or ("." not in n and n[:2] != "__"))
