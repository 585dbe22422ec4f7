"""Where bytes are kept: a folder, or a bucket of an S3-compatible service.

A key is ``tenant/run/id``, all of them ids, so that no name that a user chose is ever part of a
path. A key is written once and never again. `write` makes the bytes appear whole or not at all.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from windlass.config import SQLITE, Settings
from windlass.errors import UsageError

CHUNK = 1024 * 1024
"""How many bytes are read or written at a time."""

S3 = "s3://"


class Kept(NamedTuple):
    """Bytes that are in a place."""

    key: str
    at: datetime  # when they were written, by the clock of the place


class Place(Protocol):
    """Bytes by key. All of it blocks. Raises PlaceUnavailable."""

    def write(self, key: str, chunks: Iterator[bytes]) -> None:
        """Keep bytes, durably. If that fails, or `chunks` raises, nothing is kept."""
        ...

    def read(self, key: str, offset: int, length: int) -> AbstractContextManager[Iterator[bytes]]:
        """A part of the bytes, in chunks. Raises FileNotFoundError if there are none."""
        ...

    def delete(self, key: str) -> None:
        """Remove bytes, if they are there."""
        ...

    def kept(self, tenant: str) -> Iterator[Kept]:
        """All bytes of a tenant."""
        ...

    def clear(self, before: datetime) -> int:
        """Remove what writes left unfinished before then; returns how many."""
        ...


def place_of(settings: Settings) -> str | None:
    """Where an application keeps its artifacts: as set, else in a folder beside its SQLite file.

    Workers on PostgreSQL may be on many machines: where they share a folder, somebody must say.
    """
    if settings.artifacts is not None:
        is_folder = not settings.artifacts.startswith(S3)
        return (
            str(Path(settings.artifacts).expanduser().absolute())
            if is_folder
            else settings.artifacts
        )
    if not settings.url.startswith(SQLITE):
        return None
    from windlass.store.sqlite.files import parse_path

    return f"{parse_path(settings.url)}-artifacts"


def open_place(url: str | None) -> Place:
    """The place that a setting names: a folder or ``s3://bucket/prefix``."""
    if url is None:
        raise UsageError(
            "Say where artifacts are kept: artifacts= a folder that all workers share, or s3://bucket."
        )
    if url.startswith(S3):
        from windlass.artifacts.s3 import S3Place

        return S3Place.at(url)
    from windlass.artifacts.folder import FolderPlace

    return FolderPlace(Path(url))
