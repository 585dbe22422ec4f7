"""Annotations of handlers, turned into types that msgspec can decode to.

Most annotations msgspec checks by itself. Three kinds need help, which its decoders get from
`decode_foreign`: pydantic models, paths and IP addresses, and types that pydantic must check as a
whole (unions of models or dataclasses, pydantic's own constraints). Each of the last kind is given
to msgspec as a class that stands for it. What nobody can check is refused, with advice.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator
from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec

from windlass import codec

_UNCHECKED = (Any, object)
_PYDANTIC = frozenset({"pydantic", "pydantic_core", "annotated_types"})
_INSTALL = 'install pydantic, which can: pip install "windlass[pydantic]"'
_PLAIN = "take what JSON has, such as a list, a dict or a text"
_MODEL = "make it a dataclass, a TypedDict, a msgspec struct or a pydantic model"


class Uncheckable(Exception):
    """Nobody can check values by this annotation; `advice` says what to do about it."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why, advice)
        self.why = why
        self.advice = advice


def decodable(hint: Any) -> Any:
    """Return the type that a msgspec decoder, with `decode_foreign` as its hook, checks it by.

    Raises Uncheckable.
    """
    if hint in _UNCHECKED:
        return Any
    try:
        parts = list(_parts(hint, {}))
    except (NameError, AttributeError) as error:
        raise undefined(error) from error
    for part in parts:
        if isinstance(part, type) and not _readable(part):
            raise Uncheckable(f"{name_of(part)} cannot be read from JSON", _advice(part))
    if not any(map(_is_pydantics, parts)):
        try:
            msgspec.json.Decoder(hint)
        except TypeError as error:
            said = str(error).partition(" - type")[0]
            if "union" not in said:
                raise Uncheckable(
                    f"{name_of(hint)} cannot be read from JSON ({said})", _PLAIN
                ) from error
        else:
            return hint
    if any(isinstance(part, msgspec.Meta) for part in parts):
        why = f"only pydantic can check {name_of(hint)}, and it ignores msgspec.Meta"
        raise Uncheckable(why, "use pydantic.Field instead")
    return _checked_by_pydantic(hint)


def undefined(error: Exception) -> Uncheckable:
    """Say that an annotation names something that is not there when the program runs."""
    name = getattr(error, "name", None)
    why = f"the name {name} is not defined here" if name else f"it cannot be evaluated ({error})"
    advice = "import it outside `if TYPE_CHECKING:`, or define it before the job"
    return Uncheckable(why, advice)


def name_of(hint: Any) -> str:
    """An annotation as its author wrote it, more or less."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__qualname__.rpartition(".")[2]
    members = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " | ".join("None" if m is types.NoneType else name_of(m) for m in members)
    if typing.get_origin(hint) is Annotated:
        return name_of(members[0])
    return str(hint) if isinstance(hint, str) else repr(hint)


def _parts(hint: Any, seen: dict[int, object]) -> Iterator[object]:
    """Yield every class and every piece of metadata in a type. Types may contain themselves."""
    if id(hint) in seen or typing.get_origin(hint) is Literal:
        return
    seen[id(hint)] = hint  # kept alive, so that nothing else gets its id
    if typing.get_origin(hint) is Annotated:
        yield from hint.__metadata__
        yield from _parts(hint.__origin__, seen)
        return
    for inner in ("__supertype__", "__value__"):  # of a NewType, of a type alias
        if hasattr(hint, inner) and not isinstance(hint, type):
            yield from _parts(getattr(hint, inner), seen)
    cls = typing.get_origin(hint) or hint
    if isinstance(cls, type):
        yield cls
        if _has_fields(cls) and (cls is hint or id(cls) not in seen):
            seen[id(cls)] = cls
            for field in typing.get_type_hints(cls, include_extras=True).values():
                yield from _parts(field, seen)
    if cls is not typing.get_origin(typing.Callable[..., Any]):
        for argument in typing.get_args(hint):
            yield from _parts(argument, seen)


def _has_fields(cls: type) -> bool:
    return (
        dataclasses.is_dataclass(cls)
        or issubclass(cls, msgspec.Struct)
        or typing.is_typeddict(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
        or hasattr(cls, "__attrs_attrs__")
    )


def _readable(cls: type) -> bool:
    """Whether values of a class can be made of JSON; those inside of it are asked for apart."""
    if cls in (object, types.UnionType) or codec.is_model(cls) or _has_fields(cls):
        return True
    if issubclass(cls, codec.TEXTUAL):
        return _is_of_this_system(cls)
    return not isinstance(msgspec.inspect.type_info(cls), msgspec.inspect.CustomType)


def _is_of_this_system(cls: type) -> bool:
    """A WindowsPath can be made on Windows alone, a PosixPath elsewhere."""
    try:
        issubclass(cls, PurePath) and cls(".")
    except NotImplementedError:
        return False
    return True


def _advice(cls: type) -> str:
    if cls.__module__ in ("collections.abc", "builtins", "typing"):
        return _PLAIN
    return _MODEL


def _is_pydantics(part: object) -> bool:
    """Whether it is a constraint, or a dataclass, that only pydantic heeds."""
    cls = part if isinstance(part, type) else type(part)
    if cls is part:
        return dataclasses.is_dataclass(cls) and hasattr(cls, "__pydantic_validator__")
    return cls.__module__.partition(".")[0] in _PYDANTIC


class _Checked(type):
    """The class of the classes that stand for what pydantic checks."""

    adapter: Any

    def __instancecheck__(cls, value: object) -> bool:
        # msgspec asks this of what the hook returns; pydantic has checked that already.
        return True


def _checked_by_pydantic(hint: Any) -> type:
    try:
        import pydantic  # only those who need it wait for it
    except ImportError:
        why = f"msgspec cannot check {name_of(hint)}"
        raise Uncheckable(why, _INSTALL) from None
    # As strict as msgspec, and with its form of bytes; models keep their own configuration. In a
    # tuple, since pydantic takes no configuration for a type that might have one.
    config = pydantic.ConfigDict(strict=True, val_json_bytes="base64")
    alone: Any = tuple.__class_getitem__((hint,))
    try:
        adapter = pydantic.TypeAdapter[Any](alone, config=config)
    except (pydantic.PydanticUserError, TypeError, NameError) as error:
        first = str(error).partition("\n")[0].rstrip(".")
        why = f"neither msgspec nor pydantic can check {name_of(hint)} ({first})"
        raise Uncheckable(why, "use pydantic models or dataclasses in it") from error
    return _Checked("Checked", (), {"adapter": adapter})


def decode_foreign(cls: Any, value: object) -> object:
    """Make what msgspec cannot: its decoders call this with the class and the JSON value."""
    if cls is object:
        return value
    if isinstance(value, str) and issubclass(cls, codec.TEXTUAL):
        return cls(value)
    # As JSON, not as Python values: a strict model takes a date only from JSON's text.
    data = msgspec.json.encode(value)
    try:
        if isinstance(cls, _Checked):
            return cls.adapter.validate_json(b"[%b]" % data)[0]
        if codec.is_model(cls):
            return cls.model_validate_json(data)
    except ValueError as error:
        raise ValueError(_first_problem(error, skip=isinstance(cls, _Checked))) from None
    raise ValueError(f"Expected `str`, got `{type(value).__name__}`")


def _first_problem(error: Any, *, skip: bool) -> str:
    """Say in one line, without the value, what Pydantic says in five."""
    if not hasattr(error, "errors"):
        return str(error)  # of a model that validates in a way of its own
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(step) for step in problem["loc"][skip:])
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])
