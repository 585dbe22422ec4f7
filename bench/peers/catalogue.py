"""Reads the catalogue: which peers there are, at which versions, and how far each has to run."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import msgspec

PROGRAMS = Path(__file__).with_name("programs")
OURS = "Windlass"


class Unavailable(Exception):
    """A peer cannot race; the message says why, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One competitor, as the catalogue has it."""

    name: str
    program: str
    stores: tuple[str, ...]
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    fetch: int = 1
    cap: int | None = None
    bulk: bool = True

    def runs(self, asked: int) -> int:
        """How many runs it drains, if so many are asked for."""
        return asked if self.cap is None else min(asked, self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A peer on one store: a line of the table."""

    peer: Peer
    store: str  # by its name in the table: "PostgreSQL 18", "SQLite", "Redis"


def read_catalogue() -> list[Peer]:
    """Read all peers, in the order of the file."""
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["peer"], list[Peer])
