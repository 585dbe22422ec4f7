"""Checks that a store makes of itself: its software, its settings, its disk.

What a database can tell of itself differs; so each store brings its own checks, and whoever runs
them needs not know which store it is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from windlass.domain.checkup import Finding, Limits, Severity


class Needs(IntEnum):
    """What must be in order before a check makes sense."""

    NOTHING = 0
    STORE = 1  # it can be reached
    SCHEMA = 2  # and has the tables that this program knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing to look at. Raises WindlassError or OSError where it cannot be done."""

    name: str
    look: Callable[[Limits], Iterable[Finding]]
    needs: Needs = Needs.SCHEMA
    gives: Needs | None = None  # what is not there where this finds anything wrong:
    spoiled_by: Severity = Severity.WARNING  # so bad, or worse
    patient: bool = False  # it may take as long as it needs: somebody asked for that
