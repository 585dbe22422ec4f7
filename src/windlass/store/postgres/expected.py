"""What the files make: tables with their columns, indexes, triggers, views, by name.

Read from the text of the migrations, which have one form: a column is a line of its own below
``create table``. A test compares it with what a fresh database has.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from windlass.store.queries import load_migrations, load_queries, read_folder

_TABLE = re.compile(
    r"^create table (?:if not exists )?windlass\.(\w+) \(\n(.*?)^\)", re.MULTILINE | re.DOTALL
)
_COLUMN = re.compile(r"^  (\w+) +[^(\s]", re.MULTILINE)
_NO_COLUMNS = ("primary", "check", "unique", "foreign", "constraint")
_ADDED = re.compile(r"^alter table windlass\.(\w+)\s([^;]*);", re.MULTILINE)
_ADD = re.compile(r"\badd column (\w+)")
_INDEX = re.compile(r"^(create (?:unique )?index (\w+)\s[^;]*);", re.MULTILINE)
_DROPPED = re.compile(r"^drop index windlass\.(\w+);", re.MULTILINE)
_TRIGGER = re.compile(r"^(create trigger (\w+)\s[^;]*);", re.MULTILINE)
_VIEW = re.compile(r"^create or replace view windlass\.(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Expected:
    """The names, and what would make an index or a trigger again."""

    columns: Mapping[str, set[str]] = field(default_factory=dict)
    indexes: Mapping[str, str | None] = field(default_factory=dict)
    triggers: Mapping[str, str] = field(default_factory=dict)


@cache
def expected() -> Expected:
    """What a database of this version has in the schema."""
    columns: dict[str, set[str]] = {}
    indexes: dict[str, str | None] = {}
    triggers: dict[str, str] = {}
    for text in _texts():
        for table, body in _TABLE.findall(text):
            columns[table] = {c for c in _COLUMN.findall(body) if c not in _NO_COLUMNS}
            if "primary key" in body:
                indexes[f"{table}_pkey"] = None
        for table, changes in _ADDED.findall(text):
            columns[table].update(_ADD.findall(changes))
        for name in _DROPPED.findall(text):
            del indexes[name]
        indexes.update({name: " ".join(make.split()) for make, name in _INDEX.findall(text)})
        triggers.update({name: " ".join(make.split()) for make, name in _TRIGGER.findall(text)})
    return Expected(columns, indexes, triggers)


@cache
def expected_views() -> frozenset[str]:
    """The views among the functions."""
    texts = [text for _, text in read_folder("postgres", "functions")]
    return frozenset(name for text in texts for name in _VIEW.findall(text))


def _texts() -> Iterator[str]:
    yield load_queries("postgres")["create_bookkeeping"]
    yield from (script.text for script in load_migrations("postgres"))
