"""Watches a folder, in a thread of its own.

The system tells of changes at once (watchfiles). Where it does not (a folder that is not there yet,
a file system that has no such news), a look at the files' times every half second finds them.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from windlass.errors import UsageError

log = logging.getLogger(__name__)

DEBOUNCE = 100
"""Milliseconds for which changes are gathered: an editor writes a file in several steps."""
_STEP = 50
_LOOK = 500


class Watcher:
    """Calls back after changes, until stopped."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        try:
            import watchfiles  # noqa: F401 - so that its absence is raised here, not in the thread
        except ImportError:
            raise UsageError("Watching needs watchfiles: pip install 'windlass[watch]'.") from None
        self._folder = folder
        self._changed = changed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-files", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a file that is being loaded is not waited for."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * _LOOK / 1000)

    def _run(self) -> None:
        seen = None
        while not self._stopped.is_set():
            place = _identity(self._folder)
            for told in self._news(place is not None):
                found = _signature(self._folder)
                if told or found != seen:
                    seen = found
                    self._call()
                if self._stopped.is_set() or _identity(self._folder) != place:
                    break

    def _news(self, exists: bool) -> Iterator[bool]:
        """True for news from the system, false every half second."""
        from watchfiles import watch

        # The first look comes before the first news: something may have changed since loading.
        yield False
        if exists:
            try:
                for news in watch(
                    self._folder,
                    watch_filter=None,
                    debounce=DEBOUNCE,
                    step=_STEP,
                    stop_event=self._stopped,
                    rust_timeout=_LOOK,
                    yield_on_timeout=True,
                    ignore_permission_denied=True,
                ):
                    yield bool(news)
            except (OSError, RuntimeError) as error:  # it is gone, or the system watches no more
                log.warning("folder is looked at every half second", extra={"error": str(error)})
        while not self._stopped.wait(_LOOK / 1000):
            yield False

    def _call(self) -> None:
        try:
            self._changed()
        except BaseException:
            # Whatever it was, the next change may mend it.
            log.exception("job files not reloaded")


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _signature(folder: Path) -> frozenset[tuple[str, int, int, int]]:
    """What changes when a file does, as far as can be told without reading it."""
    found = set()
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            try:
                status = os.stat(os.path.join(above, name))  # noqa: PTH116, PTH118 - many files
            except OSError:
                continue
            found.add((f"{above}/{name}", status.st_mtime_ns, status.st_size, status.st_ino))
    return frozenset(found)
