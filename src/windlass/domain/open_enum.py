"""Enums that stay readable when a newer release has stored a value this one does not know."""

from enum import StrEnum
from typing import Self, TypeVar

from windlass.errors import BadOption

E = TypeVar("E", bound="OpenEnum")


class OpenEnum(StrEnum):
    """Names that are read from a store.

    A text without a member here becomes one of its own: equal to its text, printed as its text, in
    no listing of the members. So an old program shows what a newer one wrote instead of failing.
    What a caller gives is checked by :func:`member_of`.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = value
        unknown._value_ = value
        return unknown

    def __reduce_ex__(self, protocol: object) -> tuple[type[Self], tuple[str]]:
        """Copy and pickle by value. Python 3.11.0 to 3.11.3 look members up by name, and those
        that are unknown here have none."""
        return type(self), (self.value,)


def member_of(option: str, kind: type[E], value: object) -> E:
    """The member that a caller means. Raises BadOption."""
    for member in kind:
        if member == value:
            return member
    raise BadOption(option, f"{value!r} is not one of {', '.join(kind)}")
