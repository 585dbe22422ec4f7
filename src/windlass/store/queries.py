"""Loads the SQL: named statements and numbered migrations, one folder per dialect.

A file of ``sql/<dialect>/queries`` holds statements, each under a line ``-- name: claim_heads``
that lasts until the next such line. Comment lines directly below the name say why and are left
out; what is before the first name is about the whole file. There are no templates: what is in
the file is what is executed; but SQLite's batches repeat the row of values of an insert.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"\A(?:\s*--[^\n]*\n)+")


class Script(NamedTuple):
    """One numbered file: ``0001_core.sql`` is version 1, named ``core``."""

    version: int
    name: str
    text: str


@cache
def load_queries(dialect: str) -> Mapping[str, str]:
    """Return every named statement of a dialect."""
    found: dict[str, str] = {}
    for _, text in read_folder(dialect, "queries"):
        parts = _NAME.split(text)[1:]
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"two statements of {dialect} are named {name}")
            found[name] = _COMMENT.sub("", body).strip()
    return MappingProxyType(found)


def load_migrations(dialect: str) -> Sequence[Script]:
    """Return the migrations of a dialect in order."""
    scripts = []
    for filename, text in read_folder(dialect, "migrations"):
        number, _, name = filename.removesuffix(".sql").partition("_")
        scripts.append(Script(int(number), name, text))
    return scripts


def read_folder(dialect: str, folder: str) -> Sequence[tuple[str, str]]:
    """Return the names and texts of the SQL files in a dialect's folder, by name."""
    place = files("windlass.store") / "sql" / dialect / folder
    found = [(f.name, f.read_text("utf-8")) for f in place.iterdir() if f.name.endswith(".sql")]
    return sorted(found)
