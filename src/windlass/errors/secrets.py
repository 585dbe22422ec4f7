"""Secrets that cannot be used."""

from windlass.errors.base import WindlassError
from windlass.errors.usage import UsageError


class BadSecret(UsageError):
    """A signing secret that is too short, or is not one. The text never shows it."""

    code = "bad_secret"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"This signing secret cannot be used: {self.why}."


class CannotUnseal(WindlassError):
    """A sealed secret cannot be opened with the keys at hand."""

    code = "cannot_unseal"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"A sealed secret cannot be opened: {self.why}."
