"""The names of events: which there are, which a program may give its own, and which are asked for.

Windlass keeps some first words for itself, those of later releases included. Everything else is the
program's: `order.shipped`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from windlass import codec
from windlass.domain.envelope import NewEvent
from windlass.domain.event import EventType
from windlass.errors import BadOption

LONGEST = 100
"""Characters of a name."""

MOST_DATA = 16 * 1024
"""Bytes of the data of one: it is read by everybody, and sent around."""

KEPT = (
    "run", "step", "phase", "schedule", "batch", "delivery", "endpoint", "job", "queue", "worker",
    "stream", "windlass",
)  # fmt: skip
"""The first words of names that are ours."""

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9][a-z0-9_]*)+")
_ALL = ".*"


def make_event(name: object, data: Mapping[str, Any] | None) -> NewEvent:
    """An event of a program's own. Raises BadOption, BadPayload and PayloadTooLarge."""
    given: object = {} if data is None else data
    text = _check_own_name(name)
    if not isinstance(given, Mapping):
        raise BadOption("data", f"it must be a dict, not {type(given).__name__}")
    encoded = codec.encode(dict(given), what=f"data of event {text!r}", limit=MOST_DATA)
    return NewEvent(name=text, data=msgspec.Raw(encoded))


def _check_own_name(name: object) -> str:
    text = _check_form("event", name)
    if text.partition(".")[0] in KEPT:
        first = text.partition(".")[0]
        raise BadOption("event", f"{text!r} begins with {first!r}, which is for Windlass's own")
    return text


def check_types(types: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """The types that a reader asks for; `run.*` is all that begin so. Raises BadOption."""
    if types is None:
        return None
    given: object = types
    if not isinstance(given, str | Iterable):
        raise BadOption("types", f"it must be a list of names, not {type(given).__name__}")
    return tuple(_check_type(name) for name in ([types] if isinstance(types, str) else types))


def is_asked_for(name: str, types: tuple[str, ...] | None) -> bool:
    """Whether an event of this name is among the types that were asked for."""
    if types is None or name in types:
        return True
    return any(each.endswith(_ALL) and name.startswith(each[:-1]) for each in types)


def _check_type(name: object) -> str:
    text = name.value if isinstance(name, EventType) else name
    if isinstance(text, str) and text.endswith(_ALL) and _NAME.fullmatch(text[:-1] + "x"):
        return text
    checked = _check_form("types", text)
    known = [kind.value for kind in EventType]
    if checked.partition(".")[0] not in KEPT or checked in known:
        return checked
    from difflib import get_close_matches  # every command would wait for it

    near = get_close_matches(checked, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "windlass.EventType has all of them"
    raise BadOption("types", f"there is no event {checked!r}: {hint}")


def _check_form(option: str, name: object) -> str:
    if isinstance(name, str) and len(name) <= LONGEST and _NAME.fullmatch(name):
        return name
    raise BadOption(
        option,
        f"{str(name)[:LONGEST]!r} is not the name of an event: small letters, digits and _, in two "
        f"or more parts with a dot between, at most {LONGEST} characters, such as 'order.shipped'",
    )
