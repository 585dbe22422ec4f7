"""The store in one SQLite file.

Nothing is opened until first used. The sync face runs on the calling thread and needs no
other; the async face hands writes to one writer thread (:mod:`.writer`) and reads inline, on
a connection of its own, because a read takes microseconds and a thread switch more.

Connections belong to one process. After a fork the child finds that its parent opened them,
leaves them alone for ever and opens its own: using, or even closing, a connection of the
parent's would corrupt the file under it.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import unquote

from windlass.errors import BadOption
from windlass.sources import Sources
from windlass.store.interface import Call, Operations, Wakeups
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.operations import Kind, SqliteCall, SqliteOperations
from windlass.store.sqlite.transaction import StoreClock
from windlass.store.sqlite.wakeups import Bell
from windlass.store.sqlite.writer import Writer

T = TypeVar("T")

_SCHEME = "sqlite:///"


def parse_path(place: str | Path) -> Path:
    """Return the file that a path or a ``sqlite:///`` URL names."""
    text = str(place)
    if text.startswith("sqlite:"):
        if not text.startswith(_SCHEME):
            raise BadOption(
                "url", f"{text!r} needs three slashes, as in sqlite:///windlass.db", "url"
            )
        text = unquote(text.removeprefix(_SCHEME))
    if text in ("", ":memory:"):
        raise BadOption("url", "the processes of Windlass share a file: name one", "url")
    return Path(text).absolute()


class _Process:
    """What one process has open."""

    def __init__(self, path: Path, sources: Sources) -> None:
        self.pid = os.getpid()
        clock = StoreClock(sources.clock)

        def connection() -> Connection:
            return Connection(path, sources, clock)

        self.blocking = connection()  # the sync face: reads and writes
        self.reading = connection()  # the loop's own reads
        self.scanning = connection()  # reads that take longer, in a thread
        self.writer = Writer(connection())
        self.bell = Bell(path, sources)
        self.opened = False  # whether the file was opened and found in order


class SqliteStore:
    """A :class:`windlass.store.interface.Store` in one file, shared by processes of one host."""

    def __init__(self, place: str | Path, *, sources: Sources | None = None) -> None:
        self.path = parse_path(place)
        self._sources = sources or Sources.system()
        self._operations = SqliteOperations()
        self._process = _Process(self.path, self._sources)

    @property
    def operations(self) -> Operations:
        """Where calls are made."""
        return self._operations

    def run(self, call: Call[T]) -> T:
        """Run a call on this thread."""
        kind, body = _parts(call)
        connection = self._own().blocking
        if kind is Kind.WRITE:
            return connection.write(body)
        return connection.read(body, any_schema=kind is Kind.PEEK)

    async def arun(self, call: Call[T]) -> T:
        """Run a call without blocking the loop."""
        kind, body = _parts(call)
        own = self._own()
        if kind is Kind.PEEK:
            return await _in_thread(lambda: own.scanning.read(body, any_schema=True))
        if kind is Kind.WRITE or not own.opened:
            # Opening the file, and making its tables, is for the thread as well.
            result = await own.writer.submit(body)
            own.opened = True
            return result
        if kind is Kind.READ:
            return own.reading.read(body)
        return await _in_thread(lambda: own.scanning.read(body))

    def notify(self) -> None:
        """Hint to workers that something became ready."""
        self._own().bell.ring()

    async def anotify(self) -> None:
        """As :meth:`notify`: it never waits."""
        self._own().bell.ring()

    async def listen(self) -> Wakeups:
        """Start receiving hints."""
        return self._own().bell.listen()

    def migrate(self) -> tuple[int, int]:
        """Bring the schema up to date; return the versions before and after."""
        return self._own().blocking.migrate()

    def close(self) -> None:
        """Close what the sync face opened; the next call opens it again."""
        own = self._own()
        own.blocking.close()
        own.bell.close()

    async def aclose(self) -> None:
        """Finish what is queued and close everything."""
        own = self._own()
        await own.writer.close()
        own.blocking.close()
        own.reading.close()
        own.scanning.close()
        own.bell.close()
        self._process = _Process(self.path, self._sources)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _own(self) -> _Process:
        if self._process.pid != os.getpid():
            # One reference too many, on purpose: the parent's connections must not even be
            # closed here, and at exit Python would do that to whatever it can reach.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._process))
            self._process = _Process(self.path, self._sources)
        return self._process


def _parts(call: Call[T]) -> tuple[Kind, Callable[[Any], T]]:
    if not isinstance(call, SqliteCall):
        raise TypeError(f"{call.name} was made by another store")
    return call.kind, call.body


async def _in_thread(action: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, action)
