"""Reading handlers: their parameters, annotations and the decoders these make.

An annotation that cannot be evaluated or checked is refused here, where the job is defined. The
context is the exception: it is known by its name, so type checkers alone may import it.
"""

import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from types import NoneType
from typing import Any

import msgspec

from windlass.domain.annotations import Uncheckable, decodable, decode_foreign, name_of, undefined
from windlass.domain.outcome import Cancel, ContinueAs, Fail, Snooze
from windlass.errors import BadOption

_CONTEXT_NAMES = frozenset({"Context", "SyncContext"})
_UNIONS = (typing.Union, types.UnionType)
# They end no run with a value.
_NO_RESULTS = (Snooze, Cancel, Fail, ContinueAs, typing.NoReturn, typing.Never)

# What evaluating an annotation may raise: names that only a type checker imports, and typing
# constructs of a newer Python.
_UNRESOLVABLE = (NameError, AttributeError, TypeError, SyntaxError, ValueError, LookupError)


@dataclass(frozen=True, slots=True)
class Hints:
    """The annotations of a handler: those that were evaluated, and why the others were not."""

    known: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, Uncheckable] = field(default_factory=dict)

    def decodable(self, name: str, *, optional: bool = False) -> Any:
        """The type to decode to; Any where there is no annotation. Raises Uncheckable."""
        if name in self.refused:
            raise self.refused[name]
        hint = self.known.get(name, Any)
        if optional and hint is not Any:
            hint = typing.Optional[hint]  # noqa: UP045 (text has no |)
        return decodable(hint)


def read_signature(handler: Callable[..., object], job: str) -> inspect.Signature:
    """Return all parameters, the context included. Raises BadOption for what is no function."""
    try:
        if sys.version_info >= (3, 14):
            # Annotations are evaluated on demand there, and may raise even when only looked at.
            from annotationlib import Format

            return inspect.signature(handler, annotation_format=Format.FORWARDREF)
        return inspect.signature(handler)
    except (TypeError, ValueError) as error:
        raise BadOption("handler", f"job {job!r} is not a function with a signature") from error


def _function(handler: Callable[..., object]) -> Callable[..., object]:
    """Return the function that a call runs first, inside partials and callable objects."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not isinstance(handler, (types.FunctionType, types.MethodType, type)):
        function: Callable[..., object] = type(handler).__call__
        return function
    return handler


def documented(handler: Callable[..., object]) -> str | None:
    """The docstring that its author wrote; a partial has the one of its function."""
    return _function(handler).__doc__ or getattr(handler, "__doc__", None)


def read_hints(handler: Callable[..., object], signature: inspect.Signature) -> Hints:
    """Evaluate the annotations, each by itself; the result's is called `return`."""
    # A decorator from elsewhere shows the annotations of what it wraps, so take its names, too.
    function = inspect.unwrap(_function(handler))
    namespace, around = getattr(function, "__globals__", {}), _names_around(function)
    annotations = {p.name: p.annotation for p in signature.parameters.values()}
    annotations["return"] = signature.return_annotation
    hints = Hints()
    for name, annotation in annotations.items():
        if annotation is Parameter.empty:
            continue

        # One by one, on a function made for it: one unresolvable name must not spoil the others.
        def carrier() -> None: ...

        carrier.__annotations__ = {name: annotation}
        try:
            found = typing.get_type_hints(carrier, namespace, around, include_extras=True)
        except (NameError, AttributeError) as error:
            hints.refused[name] = undefined(error)
        except _UNRESOLVABLE:
            why = f"{name_of(annotation)} is not a type"
            hints.refused[name] = Uncheckable(why, "name a type")
        else:
            hints.known.update(found)
    return hints


def _names_around(function: Callable[..., object]) -> Mapping[str, Any]:
    """The local names of the function or class that is defining this one, if one is."""
    code = getattr(function, "__code__", None)
    frame = sys._getframe() if "." in getattr(function, "__qualname__", "") else None
    while frame is not None and all(constant is not code for constant in frame.f_code.co_consts):
        frame = frame.f_back
    return {} if frame is None else dict(frame.f_locals)


def is_context(parameter: Parameter, hints: Hints) -> bool:
    """Whether the leading parameter asks for the context, by its annotation or as `ctx`."""
    if parameter.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        return False
    return parameter.name == "ctx" or _names_context(parameter, hints)


def _names_context(parameter: Parameter, hints: Hints) -> bool:
    if parameter.name in hints.known:
        hint = hints.known[parameter.name]
        cls = typing.get_origin(hint) or hint
        # By name, since contexts belong to a layer above; of ours, since others have such, too.
        return isinstance(cls, type) and any(
            base.__name__ in _CONTEXT_NAMES and base.__module__.partition(".")[0] == "windlass"
            for base in cls.__mro__
        )
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", "")
    # Quotes are left where text was annotated and all annotations are text besides.
    return str(text).partition("[")[0].rpartition(".")[2].strip(" '\"") in _CONTEXT_NAMES


def refuse_unfit(parameters: Sequence[Parameter], hints: Hints, job: str) -> None:
    """Raise BadOption for a parameter, after the context, that no input can fill."""
    for parameter in parameters:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            why = f"job {job!r} takes *{parameter.name}: name its arguments, or take one list"
            raise BadOption("handler", why)
        if parameter.name == "ctx" or _names_context(parameter, hints):
            why = f"job {job!r} must take the context first, not as {parameter.name}"
            raise BadOption("handler", why)


def is_coroutine_handler(handler: Callable[..., object]) -> bool:
    """Whether calling it makes a coroutine. Raises BadOption for generators."""
    function = _function(handler)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadOption("handler", f"{handler!r} is a generator: nothing would run it")
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        type(handler).__call__
    )


def make_decoder(
    parameters: Sequence[Parameter], hints: Hints, job: str, *, strict: bool
) -> msgspec.json.Decoder[msgspec.Struct]:
    """Return what decodes an input to a struct with a field per parameter, in their order.

    Raises BadOption for an annotation that nobody can check.
    """
    # The fields have neutral names, lest a parameter's name clash with a struct's attribute.
    aliases = {f"p{index}": parameter.name for index, parameter in enumerate(parameters)}
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for alias, parameter in zip(aliases, parameters, strict=True):
        try:
            checked = hints.decodable(parameter.name, optional=parameter.default is None)
        except Uncheckable as error:
            raise _refusal(error, job, f"argument {parameter.name}") from error
        if parameter.default is Parameter.empty:
            fields.append((alias, checked))
            continue
        # A factory gives out the very object, also one that msgspec would refuse or copy.
        default = msgspec.field(default_factory=functools.partial(_same, parameter.default))
        fields.append((alias, checked, default))
    struct = msgspec.defstruct(
        "Input", fields, kw_only=True, rename=aliases, forbid_unknown_fields=strict
    )
    return msgspec.json.Decoder(struct, dec_hook=decode_foreign)


def make_extra_decoder(
    name: str | None, hints: Hints, job: str
) -> msgspec.json.Decoder[Any] | None:
    """Return what decodes each argument that **kwargs takes; None where they are not checked."""
    if name is None:
        return None
    try:
        if typing.get_origin(hints.known.get(name)) is typing.Unpack:
            raise Uncheckable(
                f"{name_of(hints.known[name])} is not supported", "name its arguments"
            )
        checked = hints.decodable(name)
    except Uncheckable as error:
        raise _refusal(error, job, f"arguments **{name}") from error
    return None if checked is Any else msgspec.json.Decoder(checked, dec_hook=decode_foreign)


def make_result_decoder(
    hints: Hints, job: str, of: str = "job"
) -> msgspec.json.Decoder[Any] | None:
    """Return what decodes a result; None where the handler does not say what it returns."""
    if "return" in hints.known:
        hints.known["return"] = _stored_part(hints.known["return"])
    try:
        checked = hints.decodable("return")
    except Uncheckable as error:
        raise _refusal(error, job, "result", of) from error
    return None if checked is Any else msgspec.json.Decoder(checked, dec_hook=decode_foreign)


def make_return_decoder(
    function: Callable[..., object], name: str
) -> msgspec.json.Decoder[Any] | None:
    """As `make_result_decoder`, for the function of a step."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    returned = signature.return_annotation
    alone = inspect.Signature((), return_annotation=returned)
    return make_result_decoder(read_hints(function, alone), name, of="step")


def _stored_part(hint: Any) -> Any:
    """The part of a return annotation that becomes a result: a snooze, for one, does not."""
    if typing.get_origin(hint) in (Awaitable, Coroutine):  # of a function that is not `async def`
        hint = typing.get_args(hint)[-1]
    members = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    stored = [m for m in members if m not in _NO_RESULTS]
    if len(stored) == len(members):
        return hint
    return functools.reduce(operator.or_, stored) if stored else NoneType


def _refusal(error: Uncheckable, job: str, what: str, of: str = "job") -> BadOption:
    why = f"{of} {job!r} cannot check its {what}: {error.why}"
    return BadOption("handler", f"{why}; {error.advice}, or annotate it with Any")


def _same(value: object) -> object:
    return value
