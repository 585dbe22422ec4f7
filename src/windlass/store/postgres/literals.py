"""Arrays as PostgreSQL reads them in text: cheaper than a driver's list adaptation.

A batch of 500 ends carries five arrays; adapting lists costs the driver more than all the rest
of a worker's round trip, joining text costs almost nothing. There is no null in them: where the
setting array_nulls is off, the server reads it as a word.
"""

from collections.abc import Iterable

import msgspec


def plain_array(items: Iterable[object]) -> str:
    """An array of ids or numbers: text that needs no quotes."""
    return "{" + ",".join(map(str, items)) + "}"


def text_array(items: Iterable[str]) -> str:
    """An array of any text, which is often the same."""
    items = list(items)
    quoted = {item: _quote(item) for item in set(items)}
    return "{" + ",".join([quoted[item] for item in items]) + "}"


def text_array_or_none(items: Iterable[str] | None) -> str | None:
    """The same, where there may be none."""
    return None if items is None else text_array(items)


def json_array(items: Iterable[msgspec.Raw]) -> str:
    """An array of JSON documents."""
    return "{" + ",".join([_quote(bytes(item).decode()) for item in items]) + "}"


def _quote(text: str) -> str:
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
