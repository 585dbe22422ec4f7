"""Ages: how long after its end something is done to a run, by its status."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption

DAY: Final = 24 * 3600.0
NEVER: Final = "never"
STATUSES: Final = ("succeeded", "failed", "canceled")

Age = float | None
"""Seconds; None: never."""


class Ages(msgspec.Struct, frozen=True, kw_only=True):
    """How long after the end of a run, by its status."""

    succeeded: Age
    failed: Age
    canceled: Age

    def shortest(self) -> Age:
        """The shortest of them; None if all are never."""
        known = [age for age in (self.succeeded, self.failed, self.canceled) if age is not None]
        return min(known, default=None)


def all_ages(age: Age) -> Ages:
    """The same age for every status."""
    return Ages(succeeded=age, failed=age, canceled=age)


STALE_AFTER: Final = all_ages(7 * DAY)
DELETE_AFTER: Final = all_ages(30 * DAY)


def read_age(value: object) -> Age:
    """A duration, or "never". Raises ValueError or BadDuration."""
    if isinstance(value, str) and value.strip().lower() == NEVER:
        return None
    if isinstance(value, datetime) or value is None:
        raise ValueError("a duration such as '30d', or 'never'")
    seconds = parse_duration(value)  # type: ignore[arg-type]
    if seconds < 0:
        raise ValueError("a duration that is not negative, or 'never'")
    return seconds


def read_ages(value: object, default: Ages) -> Ages:
    """One age for all, or one for each status: a mapping, or "succeeded=1d, failed=90d".

    Statuses that are not named keep the default. Raises ValueError or BadDuration.
    """
    if isinstance(value, Ages):
        return value
    if isinstance(value, str) and "=" in value:
        pairs = [part.partition("=") for part in value.split(",")]
        value = {name.strip(): age.strip() for name, _, age in pairs}
    if not isinstance(value, Mapping):
        return all_ages(read_age(value))
    unknown = [name for name in value if name not in STATUSES]
    if unknown:
        raise ValueError(f"for each of {', '.join(STATUSES)}: {unknown[0]!r} is none of them")
    given: dict[str, Any] = {name: read_age(age) for name, age in value.items()}
    return msgspec.structs.replace(default, **given)


AgeGiven = Duration | Mapping[str, Duration]
"""An age as it may be written: for all statuses, or by status. "never" is one too."""


def ages_option(name: str, value: object, default: Ages) -> Ages:
    """The same as the value of an option. Raises BadOption."""
    try:
        return read_ages(value, default)
    except ValueError as error:
        raise BadOption(name, f"{value!r} is not {error}") from None
