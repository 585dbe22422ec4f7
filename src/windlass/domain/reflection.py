"""Reading handlers: their parameters, annotations and the decoder these make.

Annotations are hints. They may be text, name what only a type checker imports, or be beyond
msgspec; whatever cannot be used is left out, and that parameter goes unchecked.
"""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any

import msgspec

from windlass import codec
from windlass.errors import BadOption

_CONTEXT_NAMES = frozenset({"Context", "SyncContext"})

# What evaluating an annotation may raise: names that only a type checker imports, and typing
# constructs of a newer Python.
_UNRESOLVABLE = (NameError, AttributeError, TypeError, SyntaxError, ValueError, LookupError)


def read_parameters(handler: Callable[..., object], job: str) -> list[Parameter]:
    """Return all parameters, the context included. Raises BadOption for what is no function."""
    try:
        if sys.version_info >= (3, 14):
            # Annotations are evaluated on demand there, and may raise even when only looked at.
            from annotationlib import Format

            signature = inspect.signature(handler, annotation_format=Format.FORWARDREF)
        else:
            signature = inspect.signature(handler)
    except (TypeError, ValueError) as error:
        raise BadOption("handler", f"job {job!r} is not a function with a signature") from error
    return list(signature.parameters.values())


def _function(handler: Callable[..., object]) -> Callable[..., object]:
    """Return the function that a call runs first, inside partials and callable objects."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not isinstance(handler, (types.FunctionType, types.MethodType, type)):
        function: Callable[..., object] = type(handler).__call__
        return function
    return handler


def read_hints(handler: Callable[..., object], parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the resolved annotations; those that cannot be resolved are absent."""
    # A decorator from elsewhere shows the annotations of what it wraps, so take its names, too.
    namespace = getattr(inspect.unwrap(_function(handler)), "__globals__", {})
    hints: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.annotation is Parameter.empty:
            continue

        # One by one, on a function made for it: one unresolvable name must not spoil the others.
        def carrier() -> None: ...

        carrier.__annotations__ = {parameter.name: parameter.annotation}
        try:
            hints |= typing.get_type_hints(carrier, namespace, include_extras=True)
        except _UNRESOLVABLE:
            continue
    return hints


def is_context(parameter: Parameter, hints: Mapping[str, Any]) -> bool:
    """Whether the leading parameter asks for the context, by its annotation or as `ctx`."""
    if parameter.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        return False
    return parameter.name == "ctx" or _names_context(parameter, hints)


def _names_context(parameter: Parameter, hints: Mapping[str, Any]) -> bool:
    if parameter.name in hints:
        hint = hints[parameter.name]
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


def refuse_unfit(parameters: Sequence[Parameter], hints: Mapping[str, Any], job: str) -> None:
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
    parameters: Sequence[Parameter], hints: Mapping[str, Any], *, strict: bool
) -> msgspec.json.Decoder[msgspec.Struct]:
    """Return what decodes an input to a struct with a field per parameter, in their order."""
    # The fields have neutral names, lest a parameter's name clash with a struct's attribute.
    aliases = {f"p{index}": parameter.name for index, parameter in enumerate(parameters)}
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for alias, parameter in zip(aliases, parameters, strict=True):
        hint = hints.get(parameter.name, Any)
        if parameter.default is Parameter.empty:
            fields.append((alias, _checkable(hint)))
            continue
        # A factory gives out the very object, also one that msgspec would refuse or copy.
        default = msgspec.field(default_factory=functools.partial(_same, parameter.default))
        fields.append((alias, _checkable(hint, optional=parameter.default is None), default))
    struct = msgspec.defstruct(
        "Input", fields, kw_only=True, rename=aliases, forbid_unknown_fields=strict
    )
    return msgspec.json.Decoder(struct, dec_hook=_decode_foreign)


def _same(value: object) -> object:
    return value


def _checkable(hint: Any, *, optional: bool = False) -> Any:
    """Return the annotation, or Any where msgspec cannot decode to it."""
    try:
        accepted = hint | None if optional and hint is not Any else hint
        msgspec.json.Decoder(accepted)
        foreign = [part.cls for part in _parts(msgspec.inspect.type_info(accepted), set())]
    except _UNRESOLVABLE:
        return Any
    return accepted if all(map(codec.is_model, foreign)) else Any


def _parts(info: object, seen: set[int]) -> Iterator[msgspec.inspect.CustomType]:
    """Yield the types in a type that msgspec leaves to hooks. Types may contain themselves."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        yield info
    elif isinstance(info, (msgspec.inspect.Type, msgspec.inspect.Field)):
        for name in info.__struct_fields__:
            yield from _parts(getattr(info, name), seen)
    elif isinstance(info, tuple):
        for item in info:
            yield from _parts(item, seen)


def _decode_foreign(cls: Any, value: object) -> object:
    try:
        # As JSON, not as Python values: a strict model takes a date only from JSON's text.
        return cls.model_validate_json(msgspec.json.encode(value))
    except ValueError as error:
        raise ValueError(_first_problem(error)) from None


def _first_problem(error: Any) -> str:
    """Say in one line, without the value, what Pydantic says in five."""
    if not hasattr(error, "errors"):
        return str(error)  # of a model that validates in a way of its own
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(step) for step in problem["loc"])
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])
