"""Instants as they come from PostgreSQL: text of the seconds since 1970, with six decimals.

A driver reads dates by settings of the session (DateStyle, TimeZone) and refuses some; numbers are
written in one way.
"""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(seconds: str) -> datetime:
    """The instant, in UTC. Raises ValueError or OverflowError for one that Python does not have."""
    whole, _, part = seconds.partition(".")
    return _EPOCH + timedelta(microseconds=int(whole + part.ljust(6, "0")))
