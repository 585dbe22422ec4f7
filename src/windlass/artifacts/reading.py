"""Readers of artifacts: bytes in chunks, checked at the end.

The checksum is that of the whole: who reads a part is told if bytes are missing, not if they were
changed.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from windlass.artifacts.place import Place
from windlass.domain.artifact import Artifact
from windlass.errors import ArtifactDamaged, BadOption
from windlass.offloop import off_loop

_THREAD = "windlass-artifact"


class ArtifactReader:
    """An artifact, or a part of it, that is read: `read(size)`, or `for chunk in reader`."""

    def __init__(self, place: Place, artifact: Artifact, offset: int, length: int | None) -> None:
        """`length` None: up to the end."""
        if offset < 0 or (length is not None and length < 0):
            raise BadOption("offset", "an offset and a length are at least 0")
        self.artifact = artifact
        left = max(0, artifact.size - offset)
        self._left = left if length is None else min(left, length)
        self._hash = hashlib.sha256() if self._left == artifact.size else None
        self._open = ExitStack()
        self.buffered = bytearray()
        try:
            chunks = place.read(artifact.location, offset, self._left)
            self._chunks = self._open.enter_context(chunks)
        except FileNotFoundError as error:
            raise ArtifactDamaged(artifact.name, "its bytes are missing") from error

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most so many; all that are left if `size` is negative. Empty at the
        end. Raises ArtifactDamaged."""
        while (size < 0 or len(self.buffered) < size) and (chunk := self._next()):
            self.buffered += chunk
        taken = len(self.buffered) if size < 0 else size
        data = bytes(self.buffered[:taken])
        del self.buffered[:taken]
        return data

    def __iter__(self) -> Iterator[bytes]:
        """The bytes, in chunks."""
        while chunk := self.chunk():
            yield chunk

    def chunk(self) -> bytes:
        """The next chunk, of any size; empty at the end."""
        if self.buffered:
            return self.read(len(self.buffered))
        return self._next()

    def close(self) -> None:
        """Let the file, or the connection, go."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _next(self) -> bytes:
        try:
            chunk = next(self._chunks, b"")
        except FileNotFoundError as error:
            raise ArtifactDamaged(self.artifact.name, "its bytes are missing") from error
        self._left -= len(chunk)
        if self._hash is not None:
            self._hash.update(chunk)
        if not chunk and self._left > 0:
            raise ArtifactDamaged(self.artifact.name, f"{self._left:,} bytes are missing")
        if self._left == 0 and self._hash is not None:
            if self._hash.hexdigest() != self.artifact.sha256:
                raise ArtifactDamaged(self.artifact.name, "its checksum is another")
            self._hash = None
        return chunk


class AsyncArtifactReader:
    """The same in async code: `async with`, `await reader.read(size)`, `async for chunk in …`."""

    def __init__(self, opening: Callable[[], Awaitable[ArtifactReader]]) -> None:
        self._opening = opening
        self._reader: ArtifactReader | None = None

    async def read(self, size: int = -1) -> bytes:
        """The next bytes, at most so many; all that are left if `size` is negative. Empty at the
        end. Raises ArtifactDamaged."""
        reader = await self._opened()
        if 0 <= size <= len(reader.buffered):
            return reader.read(size)
        return await off_loop(partial(reader.read, size), _THREAD)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The bytes, in chunks."""
        reader = await self._opened()
        while chunk := await off_loop(reader.chunk, _THREAD):
            yield chunk

    async def aclose(self) -> None:
        """Let the file, or the connection, go."""
        if self._reader is not None:
            self._reader.close()

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _opened(self) -> ArtifactReader:
        if self._reader is None:
            self._reader = await self._opening()
        return self._reader
