"""The three rules by which a schedule has its slots: once, at an interval, by cron.

All of them answer the same questions, and answer from the rule and the given instants alone:
there is no last run to count from, so nothing drifts, and a rule or zone data that changed moves
the slots to come and no others. Instants are aware datetimes in UTC.
"""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from windlass.domain.scheduling.cron import Cron, cached_cron
from windlass.domain.scheduling.walltime import instant_of
from windlass.domain.zone import LOCAL, parse_zone
from windlass.duration import Duration, format_duration, parse_duration
from windlass.errors import BadDuration, BadOption

SHORTEST_INTERVAL = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)

Moment: TypeAlias = datetime | str
"""An instant: an aware datetime or ISO 8601 text; or a local time, where a zone is given too."""


class SlotCount(msgspec.Struct, frozen=True):
    """How many slots there are; with `at_least` there may be more, and counting stopped here."""

    number: int = 0
    at_least: bool = False


class Once(msgspec.Struct, frozen=True, tag_field="kind", tag="once"):
    """One slot, then no more."""

    at: datetime

    def __post_init__(self) -> None:
        """Keep UTC."""
        _keep_utc(self, "at")

    def after(self, instant: datetime) -> datetime | None:
        """Return the first slot strictly after the instant."""
        return self.at if self.at > instant else None

    def until(self, instant: datetime) -> datetime | None:
        """Return the last slot up to and including the instant."""
        return self.at if self.at <= instant else None

    def count(self, after: datetime, until: datetime, bound: int) -> SlotCount:
        """Count the slots after the one instant, up to and including the other."""
        return SlotCount(int(after < self.at <= until))

    def explain(self) -> str:
        """Say it in English."""
        return f"Once, at {self.at.isoformat(' ')}"


class Every(msgspec.Struct, frozen=True, tag_field="kind", tag="interval"):
    """A slot at anchor + k · interval for k = 0, 1, 2, …

    The arithmetic is that of whole microseconds: the millionth slot is where it should be.
    """

    interval: timedelta
    anchor: datetime

    def __post_init__(self) -> None:
        """Refuse what is no interval."""
        _keep_utc(self, "anchor")
        if self.interval < SHORTEST_INTERVAL:
            given = self.interval.total_seconds()
            raise BadOption("interval", f"{given:g} s is shorter than a second")

    @classmethod
    def of(cls, interval: Duration, anchor: datetime) -> "Every":
        """Make one of a duration such as "5m"; raises BadOption for what is none."""
        return cls(exact_duration("interval", interval), anchor)

    def after(self, instant: datetime) -> datetime | None:
        """Return the first slot strictly after the instant."""
        steps = max((instant - self.anchor) // self.interval + 1, 0)
        try:
            return self.anchor + steps * self.interval
        except OverflowError:  # Python's calendar ends with the year 9999
            return None

    def until(self, instant: datetime) -> datetime | None:
        """Return the last slot up to and including the instant."""
        steps = (instant - self.anchor) // self.interval
        return self.anchor + steps * self.interval if steps >= 0 else None

    def count(self, after: datetime, until: datetime, bound: int) -> SlotCount:
        """Count the slots after the one instant, up to and including the other: exactly."""
        first = max((after - self.anchor) // self.interval, -1)
        last = max((until - self.anchor) // self.interval, -1)
        return SlotCount(max(last - first, 0))

    def explain(self) -> str:
        """Say it in English."""
        every = format_duration(self.interval.total_seconds())
        return f"Every {every}, counted from {self.anchor.isoformat(' ')}"


class CronRule(msgspec.Struct, frozen=True, tag_field="kind", tag="cron"):
    """The slots of a cron expression in a zone."""

    cron: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        """Refuse what cannot be understood, and store no zone but by its IANA name."""
        msgspec.structs.force_setattr(self, "cron", self.expression.text)
        if self.timezone == LOCAL:
            msgspec.structs.force_setattr(self, "timezone", self.zone.key)
        else:
            parse_zone(self.timezone)

    @property
    def expression(self) -> Cron:
        """The expression, parsed."""
        return cached_cron(self.cron)

    @property
    def zone(self) -> ZoneInfo:
        """The zone itself."""
        return parse_zone(self.timezone)

    def after(self, instant: datetime) -> datetime | None:
        """Return the first slot strictly after the instant."""
        try:
            return self.expression.next_after(instant, self.zone)
        except OverflowError:  # Python's calendar ends with the year 9999
            return None

    def until(self, instant: datetime) -> datetime | None:
        """Return the last slot up to and including the instant."""
        try:
            return self.expression.previous_at_or_before(instant, self.zone)
        except OverflowError:
            return None

    def count(self, after: datetime, until: datetime, bound: int) -> SlotCount:
        """Count the slots after the one instant, up to and including the other, up to the bound."""
        number, slot = 0, self.after(after)
        while slot is not None and slot <= until:
            if number == bound:
                return SlotCount(bound, at_least=True)
            number, slot = number + 1, self.after(slot)
        return SlotCount(number)

    def explain(self) -> str:
        """Say it in English."""
        return f"{self.expression.explain()}, in {self.timezone}"


Rule: TypeAlias = Once | Every | CronRule


def exact_duration(option: str, value: Duration) -> timedelta:
    """Return the duration to the microsecond; raises BadOption for what is none."""
    try:
        seconds = parse_duration(value)
    except BadDuration as error:
        raise BadOption(option, f"{error.given} is not a duration: {error.why}") from None
    return value if isinstance(value, timedelta) else timedelta(seconds=seconds)


def parse_moment(option: str, value: Moment, zone: ZoneInfo | None = None) -> datetime:
    """Return the instant in UTC; a local time needs the zone, and follows the rules of cron's.

    >>> parse_moment("start", "2030-06-01 09:00", ZoneInfo("Europe/Berlin")).isoformat()
    '2030-06-01T07:00:00+00:00'
    """
    given = _from_text(option, value) if isinstance(value, str) else value
    if not isinstance(given, datetime):
        raise BadOption(option, f"{given!r} is not a time")
    if not 1970 <= given.year < 9999:
        raise BadOption(option, f"{given.isoformat(' ')} is not between 1970 and 9998")
    if given.tzinfo is not None:
        return given.astimezone(UTC)
    if zone is not None:
        return instant_of(given, zone)
    raise BadOption(option, f"{given.isoformat(' ')} has no zone: add an offset or give timezone=")


def _from_text(option: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        why = f"{text[:100]!r} is not a time such as '2030-01-31T09:00:00Z'"
        raise BadOption(option, why) from None


def _keep_utc(rule: msgspec.Struct, name: str) -> None:
    msgspec.structs.force_setattr(rule, name, parse_moment(name, getattr(rule, name)))
