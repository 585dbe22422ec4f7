"""What an operation returns: something to run, not yet run."""

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Call(Generic[T_co]):
    """One transaction against a store. Opaque: only the store that made it runs it."""

    __slots__ = ("name", "repeatable")

    def __init__(self, name: str, *, repeatable: bool) -> None:
        self.name = name
        self.repeatable = repeatable
