"""The base of every exception that Windlass raises."""

from typing import ClassVar


class WindlassError(Exception):
    """The base of everything that Windlass raises on purpose."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without any change by the caller."""
