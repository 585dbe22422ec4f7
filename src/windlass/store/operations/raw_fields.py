"""Values with documents that may be missing, on their way between processes.

msgspec reads a field of type ``Raw | None`` as one that can only be null. So a struct that has such
fields is read as a twin of it, whose fields are plain ``Raw``, and made from that.
"""

from collections.abc import Callable, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

_NOTHING = msgspec.Raw(b"")
_MISSING = (b"", b"null")

Restore = Callable[[Any], Any]


def readable_twin(kind: Any) -> tuple[Any, Restore]:
    """A type that msgspec can read, and what makes of its values those of the type asked for."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _twin_of_struct(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (list, Sequence) or (origin is tuple and args[1:] == (...,)):
        inner, restore = readable_twin(args[0])
        return list[inner], lambda values: [restore(value) for value in values]  # type: ignore[valid-type]
    if origin in (Union, UnionType) and NoneType in args and len(args) == 2:
        (other,) = (arg for arg in args if arg is not NoneType)
        inner, restore = readable_twin(other)
        return inner | None, lambda value: None if value is None else restore(value)
    return kind, lambda value: value


@cache
def _twin_of_struct(kind: type[msgspec.Struct]) -> tuple[Any, Restore]:
    hints = get_type_hints(kind)
    loose = [name for name, hint in hints.items() if hint == msgspec.Raw | None]
    if not loose:
        return kind, lambda value: value
    fields = [
        (field.name, msgspec.Raw, _NOTHING)
        if field.name in loose
        else (field.name, hints[field.name], _default(field))
        for field in msgspec.structs.fields(kind)
    ]
    twin = msgspec.defstruct(f"{kind.__name__}Twin", fields, kw_only=True)

    def restore(value: Any) -> Any:
        found = {name: getattr(value, name) for name in hints if hasattr(value, name)}
        for name in loose:
            found[name] = None if bytes(found[name]) in _MISSING else found[name]
        return kind(**found)

    return twin, restore


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default
