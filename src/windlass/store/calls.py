"""What an operation returns: something to run, not yet run."""

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Call(Generic[T_co]):
    """One transaction against a store. Opaque: only the store that made it runs it.

    ``patient``: whether it waits for some seconds where another transaction holds a lock that it
    needs, because a person or a program asked for it and nothing else waits. A worker's calls are
    not: they raise :class:`~windlass.errors.StoreBusy` soon.
    """

    __slots__ = ("name", "patient", "repeatable")

    def __init__(self, name: str, *, repeatable: bool, patient: bool = False) -> None:
        self.name = name
        self.repeatable = repeatable
        self.patient = patient
