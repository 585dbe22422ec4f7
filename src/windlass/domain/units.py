"""The units of a batch: how a run's input names them, and what the function is called with.

In the input of a run they are one of

- ``[7, 8, 9]``: the units themselves;
- ``{"range": [start, stop, step]}``: numbers, as Python's `range` counts them;
- ``{"staged": 12000}``: so many, staged under the id of the run;
- ``{"artifact": {…}, "format": "ndjson"}``: the records of an artifact (`domain/records.py`);
- nothing, if the batch has a source.

The function of a batch takes the context, if it wants it, then the unit. What it takes besides is
given when the batch is enqueued, and is the same for all units.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

import msgspec

from windlass import codec
from windlass.domain import reflection
from windlass.domain.artifact import Artifact
from windlass.domain.records import FileUnits, Format, format_of
from windlass.domain.reflection import Hints
from windlass.domain.signature import Signature
from windlass.errors import BadArguments, BadOption

_UNIT = "unit"
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list = msgspec.json.Decoder(tuple[msgspec.Raw, ...]).decode
_NONE = msgspec.Raw(b"null")


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units that are not listed."""

    range: tuple[int, int, int] | None = None
    staged: int | None = None
    artifact: Artifact | None = None
    format: Format | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """The units of one batch."""

    total: int | None  # None: they come from a source, or are not counted yet
    numbers: range | None = None
    listed: tuple[msgspec.Raw, ...] | None = None
    file: FileUnits | None = None

    @property
    def staged(self) -> bool:
        """Whether they are in the store."""
        return self.total is not None and self.numbers is None and self.listed is None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCall:
    """What the function of a batch is, taken apart."""

    function: Callable[..., Any]
    source: Callable[..., Any] | None
    takes_context: bool
    is_async: bool
    unit: str
    decoder: msgspec.json.Decoder[msgspec.Struct]
    lax: msgspec.json.Decoder[msgspec.Struct]
    arguments: Signature
    """What is the same for all units: of the function, and of its source."""
    own: frozenset[str]
    """Those of them that the function takes."""
    sources: frozenset[str]
    """Those that the source takes."""
    signature: inspect.Signature
    """What a run of the batch takes."""

    @classmethod
    def of(
        cls, function: Callable[..., Any], source: Callable[..., Any] | None, name: str
    ) -> "UnitCall":
        """Read a function. Raises BadOption for what cannot be called with units."""
        takes_context, (unit, *others), hints = _read(function, name)
        found = {each.name: _resolved(each, hints) for each in others}
        wanted: list[Parameter] = []
        if source is not None:
            (_, *wanted), known = _read_source(source, name)
            found |= {p.name: _resolved(p, known) for p in wanted if p.name not in found}
        if "units" in found:
            raise BadOption(
                "handler", f"batch {name!r} has an argument units, which it needs itself"
            )
        ordered = sorted(found.values(), key=lambda p: p.default is not Parameter.empty)
        # With a source, none are given, except those of another run that had failed.
        default = Parameter.empty if source is None else None
        units = [Parameter("units", Parameter.POSITIONAL_OR_KEYWORD, default=default)]
        context = Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD)
        decoder = reflection.make_decoder(
            [unit.replace(name=_UNIT)], _renamed(hints, unit.name), name, strict=True
        )
        return cls(
            function=function,
            source=source,
            takes_context=takes_context,
            is_async=reflection.is_coroutine_handler(function),
            unit=unit.name,
            decoder=decoder,
            lax=msgspec.json.Decoder(decoder.type, strict=False, dec_hook=decoder.dec_hook),
            arguments=Signature.of(_Shape([context, *ordered]), job=name),
            own=frozenset(each.name for each in others),
            sources=frozenset(each.name for each in wanted),
            signature=inspect.Signature(
                [context, *units, *ordered] if source is None else [context, *ordered, *units]
            ),
        )

    def read_unit(self, data: msgspec.Raw, *, lax: bool = False) -> Any:
        """A unit, as the function wants it; `lax` if all values are text. Raises BadArguments."""
        decode = self.lax.decode if lax else self.decoder.decode
        try:
            (value,) = msgspec.structs.astuple(decode(b'{"unit":%b}' % bytes(data)))
        except (ValueError, RecursionError) as error:
            raise BadArguments(self.arguments.job, f"got a wrong {self.unit}: {error}") from error
        return value

    def read_arguments(self, input: msgspec.Raw) -> dict[str, Any]:
        """What is the same for all units. Raises BadArguments."""
        members = _members(input)
        members.pop("units", None)
        values, keywords = self.arguments.decode(msgspec.json.encode(members))
        return dict(zip(self.arguments.positional, values, strict=False)) | keywords

    def read_units(self, input: msgspec.Raw) -> Units:
        """The units that the input of a run names. Raises BadArguments."""
        given = _members(input).get("units", _NONE)
        if self.source is not None and bytes(given) == b"null":
            return Units(total=None)
        return self.check_units(given)

    def check_units(self, given: msgspec.Raw) -> Units:
        """Units as an input has them. Raises BadArguments."""
        text = bytes(given).lstrip()
        try:
            if text.startswith(b"["):
                listed = _list(text)
                return Units(total=len(listed), listed=listed)
            wire = msgspec.json.decode(text, type=_Wire)
            if wire.artifact is not None and wire.range is None and wire.staged is None:
                kind = wire.format or format_of(wire.artifact)
                file = FileUnits(artifact=wire.artifact, format=kind)
                return Units(total=None, file=file)
            if wire.range is not None and wire.staged is None:
                numbers = range(*wire.range)
                return Units(total=len(numbers), numbers=numbers)
            if wire.staged is not None and wire.staged >= 0 and wire.range is None:
                return Units(total=wire.staged)
        except (ValueError, OverflowError):
            pass
        raise BadArguments(
            self.arguments.job,
            'takes units as a list, as {"range": [start, stop, step]}, or as {"artifact": …, '
            '"format": …}',
            "units",
        )


def wire_of(numbers: range) -> Mapping[str, Any]:
    """Numbers as an input has them."""
    return {"range": [numbers.start, numbers.stop, numbers.step]}


def encode_unit(unit: object, job: str) -> msgspec.Raw:
    """A unit as it is stored. Raises BadPayload, PayloadTooLarge."""
    return msgspec.Raw(codec.encode(unit, what=f"unit of batch {job!r}"))


class _Shape:
    """Stands for a function that takes these parameters."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.__signature__ = inspect.Signature(parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """It is never called."""


def _read(function: Callable[..., Any], name: str) -> tuple[bool, Sequence[Parameter], Hints]:
    signature = reflection.read_signature(function, name)
    hints = reflection.read_hints(function, signature)
    parameters = list(signature.parameters.values())
    takes_context = bool(parameters) and reflection.is_context(parameters[0], hints)
    parameters = parameters[takes_context:]
    reflection.refuse_unfit(parameters, hints, name)
    if not parameters:
        raise BadOption(
            "handler", f"batch {name!r} takes no unit: give its function a parameter for it"
        )
    for each in parameters:
        if each.kind in (Parameter.VAR_KEYWORD, Parameter.POSITIONAL_ONLY):
            raise BadOption("handler", f"batch {name!r} takes {each}: name what it is given")
    return takes_context, parameters, hints


def _read_source(source: Callable[..., Any], name: str) -> tuple[Sequence[Parameter], Hints]:
    if not (inspect.isgeneratorfunction(source) or inspect.isasyncgenfunction(source)):
        why = f"that of batch {name!r} is no generator function: it must yield (unit, cursor)"
        raise BadOption("source", why)
    signature = reflection.read_signature(source, name)
    parameters = list(signature.parameters.values())
    if not parameters:
        why = (
            f"that of batch {name!r} takes nothing: its first parameter is the cursor to go on from"
        )
        raise BadOption("source", why)
    return parameters, reflection.read_hints(source, signature)


def _renamed(hints: Hints, unit: str) -> Hints:
    known = {_UNIT: hints.known[unit]} if unit in hints.known else {}
    refused = {_UNIT: hints.refused[unit]} if unit in hints.refused else {}
    return Hints(known, refused)


def _resolved(parameter: Parameter, hints: Hints) -> Parameter:
    annotation = hints.known.get(parameter.name, parameter.annotation)
    return parameter.replace(annotation=annotation, kind=Parameter.POSITIONAL_OR_KEYWORD)
