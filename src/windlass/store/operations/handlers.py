"""Calls of handlers that run in child processes: the worker makes them, under its lease.

A child has no store. It sends the name of the operation and the arguments; the worker makes the
call with its own lease, so that a child can act for no run but its own. Any operation that is
declared ``for_handlers`` can be called this way. Its first parameter is what the worker fills in:
``held``, the lease, or ``tenant``, whose run it is.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import msgspec

from windlass.domain.run import Held
from windlass.errors import UsageError
from windlass.store.operations.declare import Call, Operation
from windlass.store.operations.raw_fields import Restore, readable_twin

_encode = msgspec.json.Encoder().encode


class _Form(NamedTuple):
    """What travels for one operation."""

    by_lease: bool  # the first argument is the lease, not the tenant
    names: tuple[str, ...]  # of the other parameters
    arguments: msgspec.json.Decoder[tuple[Any, ...]]
    restores: tuple[Restore, ...]  # for each argument
    answer: msgspec.json.Decoder[Any]
    restore: Restore


@cache
def _form(method: Callable[..., Any]) -> _Form:
    declaration = inspect.unwrap(method)
    first, *others = list(inspect.signature(declaration).parameters)[1:]
    hints = get_type_hints(declaration)
    twins = [readable_twin(hints[name]) for name in others]
    kinds: Any = tuple.__class_getitem__(tuple(twin for twin, _ in twins))
    answer, restore = readable_twin(hints["return"])
    return _Form(
        by_lease=first == "held",
        names=tuple(others),
        arguments=msgspec.json.Decoder(kinds),
        restores=tuple(made for _, made in twins),
        answer=msgspec.json.Decoder(answer),
        restore=restore,
    )


def pack_arguments(operations: object, call: Call[Any]) -> msgspec.Raw:
    """The arguments of a call as they travel: all but the first."""
    names = _form(_method(operations, call.name)).names
    given = dict(zip(names, call.arguments[1:], strict=False)) | dict(call.keywords)
    return msgspec.Raw(_encode([given[name] for name in names]))


def make_call(operations: object, name: str, held: Held, arguments: msgspec.Raw) -> Call[Any]:
    """The call that a handler has asked for, under the lease that the worker holds."""
    method = _method(operations, name)
    form = _form(method)
    given = zip(form.names, form.restores, form.arguments.decode(arguments), strict=True)
    values = {name: restore(value) for name, restore, value in given}
    call: Call[Any] = method(operations, held if form.by_lease else held.tenant, **values)
    return call


def pack_answer(value: object) -> msgspec.Raw:
    """An answer as it travels."""
    return msgspec.Raw(_encode(value))


def unpack_answer(operations: object, name: str, answer: msgspec.Raw) -> Any:
    """Read what the worker sent back."""
    form = _form(_method(operations, name))
    return form.restore(form.answer.decode(answer))


def _method(operations: object, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] | None = getattr(type(operations), name, None)
    operation: Operation | None = getattr(method, "operation", None)
    if method is None or operation is None or not operation.for_handlers:
        raise UsageError(f"A handler cannot call {name}.")
    return method
