"""Arrays as PostgreSQL reads them in text: cheaper than a driver's list adaptation.

A batch of 500 ends carries five arrays; adapting lists costs the driver more than all the rest
of a worker's round trip, joining text costs almost nothing.
"""

from collections.abc import Iterable, Sequence

import msgspec


def plain_array(items: Iterable[object]) -> str:
    """An array of ids or numbers: text that needs no quotes."""
    return "{" + ",".join(map(str, items)) + "}"


def text_array(items: Sequence[str | None]) -> str:
    """An array of any text."""
    return "{" + ",".join(["NULL" if item is None else _quote(item) for item in items]) + "}"


def json_array(items: Sequence[msgspec.Raw | None]) -> str | None:
    """An array of JSON documents; None if there is none among them."""
    if all(item is None for item in items):
        return None
    return "{" + ",".join(["NULL" if i is None else _quote(bytes(i).decode()) for i in items]) + "}"


def _quote(text: str) -> str:
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
