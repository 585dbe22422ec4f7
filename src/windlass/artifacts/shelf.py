"""A place for artifacts, with the limits of an application."""

import logging
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from windlass.artifacts.chunks import Measured
from windlass.artifacts.place import Place, open_place
from windlass.artifacts.reading import ArtifactReader
from windlass.config import DEFAULT_ARTIFACT_LIMIT
from windlass.domain.artifact import Artifact
from windlass.errors import PlaceUnavailable

log = logging.getLogger(__name__)


class Written(NamedTuple):
    """What is known of bytes once they are kept."""

    size: int
    sha256: str


def _no_ids() -> str:
    raise AssertionError("a shelf without a place is never written to")


class Shelf:
    """Keeps, reads and removes the bytes of artifacts. Blocks; opened when it is first used."""

    def __init__(
        self,
        url: str | None = None,
        limit: int = DEFAULT_ARTIFACT_LIMIT,
        new_id: Callable[[], str] = _no_ids,
    ) -> None:
        """`limit` is the most bytes of one artifact."""
        self._url = url
        self._limit = limit
        self.new_id = new_id

    @cached_property
    def place(self) -> Place:
        """Where the bytes are. Raises UsageError if nobody said."""
        return open_place(self._url)

    def write(self, name: str, key: str, chunks: Iterator[bytes]) -> Written:
        """Keep bytes. Raises ArtifactTooLarge and PlaceUnavailable."""
        measured = Measured(name, chunks, self._limit)
        self.place.write(key, iter(measured))
        return Written(measured.size, measured.sha256)

    def read(
        self, artifact: Artifact, offset: int = 0, length: int | None = None
    ) -> ArtifactReader:
        """Open an artifact. Raises ArtifactDamaged if its bytes are missing."""
        return ArtifactReader(self.place, artifact, offset, length)

    def read_whole(self, artifact: Artifact) -> bytes:
        """All bytes of an artifact, checked. Raises ArtifactDamaged."""
        with self.read(artifact) as reader:
            return reader.read()

    def remove(self, key: str) -> None:
        """Remove bytes that no row names any more. If that fails now, the sweep does it."""
        try:
            self.place.delete(key)
        except PlaceUnavailable as error:
            log.warning("bytes are left to the sweep", extra={"key": key, "error": str(error)})


def key_of(tenant: str, run: str | None, artifact: str) -> str:
    """Where the bytes of an artifact are; those of no run are under ``-``."""
    return f"{tenant}/{run or '-'}/{artifact}"


def id_in(key: str) -> str:
    """The id of the artifact whose bytes these are."""
    return key.rpartition("/")[2]
