"""What can be put: bytes, a file, or something that makes bytes piece by piece."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from windlass.artifacts.place import CHUNK
from windlass.errors import ArtifactTooLarge, BadOption

Data = bytes | bytearray | memoryview | os.PathLike[str] | BinaryIO | Iterable[bytes]
"""What a handler in a thread may put: a path is that of a file to read."""
AnyData = Data | AsyncIterable[bytes]
"""What an async handler may put."""


def chunks_of(data: Any) -> Iterator[bytes]:
    """The pieces of what is to be kept. Raises BadOption."""
    if isinstance(data, str):
        raise BadOption("data", "text has no bytes of its own: give data.encode(), or a Path")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return _slices(memoryview(data).cast("B"))
    if isinstance(data, os.PathLike):
        return _of_path(data)
    if hasattr(data, "read"):
        return iter(lambda: data.read(CHUNK), b"")
    if isinstance(data, Iterable):
        return iter(data)
    if isinstance(data, AsyncIterable):
        raise BadOption("data", "an async iterator is for async code")
    raise BadOption("data", f"{type(data).__name__} is not bytes, a file or an iterator of bytes")


def _slices(data: memoryview) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK):
        yield bytes(data[start : start + CHUNK])


def _of_path(path: os.PathLike[str]) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        yield from iter(lambda: file.read(CHUNK), b"")


class Crossing:
    """An async iterator, read by a thread while its loop goes on."""

    def __init__(self, data: AsyncIterable[bytes]) -> None:
        self._items = aiter(data)
        self._loop = asyncio.get_running_loop()
        self.is_over = False  # nobody waits for it any more

    def __iter__(self) -> Iterator[bytes]:
        async def following() -> bytes | None:
            return await anext(self._items, None)

        while not self.is_over:
            item = asyncio.run_coroutine_threadsafe(following(), self._loop).result()
            if item is None:
                return
            yield item
        raise asyncio.CancelledError


class Measured:
    """Pieces on their way: counted, hashed, and held to a limit."""

    def __init__(self, name: str, chunks: Iterator[bytes], limit: int) -> None:
        self._name = name
        self._chunks = chunks
        self._limit = limit
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """The checksum of what has passed."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                raise BadOption("data", f"it yields {type(chunk).__name__}, not bytes")
            self.size += len(chunk)
            if self.size > self._limit:
                raise ArtifactTooLarge(self._name, self._limit)
            self._hash.update(chunk)
            yield bytes(chunk)
