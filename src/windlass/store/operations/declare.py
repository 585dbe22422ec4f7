"""How an operation is declared.

The decorators turn a method that only has a signature and a docstring into one that makes a `Call`:

    @write(repeatable=False)
    def discard(self, tenant: str, runs: Sequence[str]) -> int:
        # Take failed runs off the list of dead letters.
        ...

`operations.discard("default", [...])` is then a `Call[int]`. What a store must know about the
operation besides its arguments is said here, never guessed from its name.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import update_wrapper
from types import ModuleType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Access(Enum):
    """What an operation does to the data."""

    READ = auto()  # a few rows by key: a loop may wait for it
    SCAN = auto()  # reads an amount that grows with the data
    WRITE = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation, whatever its arguments."""

    name: str
    access: Access
    new_work: bool  # adds work: refused where the disk has only room to end what is there
    urgent: bool  # must not queue behind other calls
    for_handlers: bool  # a handler may call it, under its lease: see `handlers.py`


class Call(Generic[T_co]):
    """One transaction against a store, described but not yet run.

    ``repeatable``: a store may send it again if it does not know whether the first one arrived.
    ``patient``: it waits for some seconds if another transaction holds a lock that it needs,
    because a person or a program asked for it and nothing else waits. A worker's calls are not:
    they raise :class:`~windlass.errors.StoreBusy` soon.
    """

    __slots__ = ("arguments", "keywords", "operation", "patient", "repeatable")

    def __init__(
        self,
        operation: Operation,
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        *,
        repeatable: bool,
        patient: bool,
    ) -> None:
        self.operation = operation
        self.arguments = arguments
        self.keywords = keywords
        self.repeatable = repeatable
        self.patient = patient

    @property
    def name(self) -> str:
        """The name of the operation, for people."""
        return self.operation.name

    def once(self) -> "Call[T_co]":
        """The same call, never to be repeated by the store."""
        return Call(
            self.operation, self.arguments, self.keywords, repeatable=False, patient=self.patient
        )


def read(
    *, for_handlers: bool = False
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], Call[T]]]:
    """Declare a read of a few rows by key."""
    return _declare(Access.READ, for_handlers=for_handlers)


def scan() -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], Call[T]]]:
    """Declare a read whose cost grows with the data."""
    return _declare(Access.SCAN)


def write(
    *,
    repeatable: bool | Callable[..., bool] = True,
    patient: bool | Callable[..., bool] = False,
    new_work: bool = False,
    urgent: bool = False,
    for_handlers: bool = False,
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], Call[T]]]:
    """Declare a write. What depends on the arguments is a function of the same arguments."""
    return _declare(
        Access.WRITE,
        repeatable,
        patient,
        new_work=new_work,
        urgent=urgent,
        for_handlers=for_handlers,
    )


class _Default(NamedTuple):
    place: int  # among the positional arguments; those that are keywords only come after all
    name: str
    value: Any


def _declare(
    access: Access,
    repeatable: bool | Callable[..., bool] = True,
    patient: bool | Callable[..., bool] = False,
    *,
    new_work: bool = False,
    urgent: bool = False,
    for_handlers: bool = False,
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], Call[T]]]:
    def decorate(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Call[T]]:
        operation = Operation(method.__name__, access, new_work, urgent, for_handlers)
        defaults = _defaults(method)

        def make(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
            for place, name, value in defaults:
                if len(args) <= place and name not in kwargs:
                    kwargs[name] = value
            return Call(
                operation,
                args,
                kwargs,
                repeatable=_judge(repeatable, args, kwargs),
                patient=_judge(patient, args, kwargs),
            )

        update_wrapper(make, method)
        make.operation = operation  # type: ignore[attr-defined]
        return make

    return decorate


def _judge(
    trait: bool | Callable[..., bool], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> bool:
    return trait if isinstance(trait, bool) else trait(*arguments, **keywords)


def _defaults(method: Callable[..., object]) -> tuple[_Default, ...]:
    """Where each default belongs. They are filled in here, so that a store has none of its own."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return tuple(
        _Default(
            len(parameters) if parameter.kind is parameter.KEYWORD_ONLY else place,
            parameter.name,
            parameter.default,
        )
        for place, parameter in enumerate(parameters)
        if parameter.default is not parameter.empty
    )


def declared(operations: type) -> Mapping[str, Operation]:
    """All operations of a class, by name."""
    found = (getattr(operations, name) for name in dir(operations))
    every = (member.operation for member in found if hasattr(member, "operation"))
    return {operation.name: operation for operation in every}


def implementations(
    operations: type, *modules: ModuleType
) -> Mapping[Operation, Callable[..., Any]]:
    """The function of each operation: the one of its name in these modules.

    Raises TypeError if there is none, or more than one: found when the program starts.
    """
    found = {}
    for name, operation in declared(operations).items():
        functions = [vars(m)[name] for m in modules if _defines(m, name)]
        if len(functions) != 1:
            places = ", ".join(module.__name__ for module in modules)
            raise TypeError(f"{len(functions)} functions named {name} in {places}: need one")
        found[operation] = functions[0]
    return found


def _defines(module: ModuleType, name: str) -> bool:
    return getattr(vars(module).get(name), "__module__", None) == module.__name__
