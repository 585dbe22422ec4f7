"""What becomes of the slots that passed while no scheduler was there."""

import re
from enum import StrEnum
from typing import Self

import msgspec

from windlass.errors import BadOption

DEFAULT_MAX = 100
HIGHEST_MAX = 10_000

_TEXT = re.compile(r"(?P<mode>[a-z]+)(?:\s*\(\s*(?:max\s*=\s*)?(?P<max>[0-9]{1,9})\s*\))?")


class CatchUpMode(StrEnum):
    """The three policies."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class CatchUp(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which of the missed slots still get their run.

    None of them (`skip`), the newest (`latest`), or all, but at most `max` and then the newest.

    >>> CatchUp.parse("all(max=24)") == CatchUp.all(max=24)
    True
    """

    mode: CatchUpMode
    max: int | None = None

    def __post_init__(self) -> None:
        """Refuse a number that means nothing."""
        if self.mode is not CatchUpMode.ALL:
            if self.max is not None:
                raise BadOption("catch_up", f"only 'all' takes a max, {self.mode.value!r} has none")
        elif type(self.max) is not int or not 1 <= self.max <= HIGHEST_MAX:
            raise BadOption(
                "catch_up", f"max {self.max!r} is not a whole number from 1 to {HIGHEST_MAX:,}"
            )

    @classmethod
    def skip(cls) -> Self:
        """Give none of them a run."""
        return cls(CatchUpMode.SKIP)

    @classmethod
    def latest(cls) -> Self:
        """Give the newest of them a run: the default."""
        return cls(CatchUpMode.LATEST)

    @classmethod
    def all(cls, max: int = DEFAULT_MAX) -> Self:
        """Give each of them a run; of more than `max`, the newest."""
        return cls(CatchUpMode.ALL, max)

    @classmethod
    def parse(cls, value: "str | CatchUp") -> "CatchUp":
        """Read "skip", "latest", "all" or "all(max=24)"; raises BadOption for anything else."""
        if isinstance(value, CatchUp):
            return value
        given: object = value  # whatever the annotation says
        shape = _TEXT.fullmatch(given.strip().lower()) if isinstance(given, str) else None
        if shape is None or shape["mode"] not in set(CatchUpMode):
            raise BadOption(
                "catch_up", f"{value!r} is none of 'skip', 'latest', 'all' and 'all(max=24)'"
            )
        mode = CatchUpMode(shape["mode"])
        if shape["max"] is not None:
            return cls(mode, int(shape["max"]))
        return cls.all() if mode is CatchUpMode.ALL else cls(mode)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return self.mode.value if self.max is None else f"{self.mode.value}(max={self.max})"
