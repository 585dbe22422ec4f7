"""The body of an answer, read within its limits.

What is decompressed is bounded before it exists: the decompressor never makes more than may be
kept, and one byte, which says that there is more.
"""

import zlib
from typing import Final

from windlass.egress.addresses import NoAnswer
from windlass.egress.policy import Limits
from windlass.errors import AnswerTooLarge

_SLACK: Final = 64 * 1024
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


class _Inflating:
    """Decompresses, never more than asked for."""

    def __init__(self) -> None:
        self._current = zlib.decompressobj(_GZIP_OR_ZLIB)

    def inflate(self, data: bytes, most: int) -> bytes:
        """At most so many bytes; as many as that means that there may be more."""
        made = bytearray()
        try:
            while data and len(made) < most:
                if self._current.eof:  # gzip may be several files in a row
                    self._current = zlib.decompressobj(_GZIP_OR_ZLIB)
                made += self._current.decompress(data, most - len(made))
                data = self._current.unconsumed_tail or self._current.unused_data
        except zlib.error as error:
            raise NoAnswer(f"its body is not what Content-Encoding says: {error}") from error
        return bytes(made)


class Body:
    """Gathers a body; `full` once no more of it is wanted."""

    def __init__(self, limits: Limits, encodings: list[str]) -> None:
        self._limits = limits
        self._inflating = _decoder(encodings)
        self._kept = bytearray()
        self._arrived = 0
        self.full = False

    def feed(self, data: bytes) -> None:
        """Take what has arrived. Raises AnswerTooLarge, unless what fits is to be kept."""
        self._arrived += len(data)
        if self._arrived > self._limits.body + _SLACK:  # compressed nothing is something, too
            self._overflow("bytes", self._limits.body)
            return
        room = self._limits.body - len(self._kept) + 1
        inflating = self._inflating
        self._kept += data[:room] if inflating is None else inflating.inflate(data, room)
        size = len(self._kept)
        if size > self._limits.body:
            self._overflow("bytes", self._limits.body)
        elif size > _SLACK and size > self._limits.ratio * self._arrived:
            self._overflow("bytes for each byte that was sent", self._limits.ratio)

    def content(self) -> bytes:
        """What was kept."""
        return bytes(self._kept)

    def _overflow(self, what: str, limit: int) -> None:
        if not self._limits.truncate:
            raise AnswerTooLarge(what, limit)
        del self._kept[self._limits.body :]
        self.full = True


def _decoder(encodings: list[str]) -> _Inflating | None:
    match encodings:
        case [] | ["identity"]:
            return None
        case ["gzip" | "x-gzip" | "deflate"]:
            return _Inflating()
        case _:
            raise NoAnswer("its body has an encoding that was not asked for")
