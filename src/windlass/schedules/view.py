"""What is known of a schedule, in the words and types of an application."""

from datetime import UTC, datetime
from typing import Any

from windlass import codec
from windlass.domain.scheduling.definition import ScheduleDefinition
from windlass.domain.scheduling.firing import schedule_of, state_of
from windlass.domain.scheduling.rows import Overlap, ScheduleOptions, ScheduleOrigin, ScheduleRow
from windlass.errors import BadOption


class Schedule:
    """What was last read of a schedule."""

    __slots__ = ("_row",)

    def __init__(self, row: ScheduleRow) -> None:
        self._row = row

    @property
    def id(self) -> str:
        """The id."""
        return self._row.id

    @property
    def key(self) -> str | None:
        """The application's own name for it."""
        return self._row.key

    @property
    def tenant(self) -> str:
        """Its owner."""
        return self._row.tenant

    @property
    def job(self) -> str:
        """The job that it makes runs of."""
        return self._row.job

    @property
    def input(self) -> dict[str, Any]:
        """The arguments of its runs, by name."""
        value = codec.decode(self._row.input)
        return value if isinstance(value, dict) else {"": value}

    @property
    def options(self) -> ScheduleOptions:
        """What its runs override of their job's definition."""
        return self._row.options

    @property
    def timetable(self) -> ScheduleDefinition:
        """When it runs: the rule and its bounds. Raises BadOption if it cannot be read any more."""
        return schedule_of(self._row)

    @property
    def overlap(self) -> Overlap:
        """What happens at a slot while an earlier run is live."""
        return self._row.overlap

    @property
    def enabled(self) -> bool:
        """Whether it is not paused."""
        return self._row.enabled

    @property
    def origin(self) -> ScheduleOrigin:
        """Whether it was declared in code, or made at run time."""
        return self._row.origin

    @property
    def next_slot(self) -> datetime | None:
        """When it runs next; None while it is paused, and once nothing is left to come."""
        return _utc(self._row.next_slot)

    @property
    def last_slot(self) -> datetime | None:
        """The latest slot that was decided, whatever became of it."""
        return _utc(self._row.last_slot)

    @property
    def fired(self) -> int:
        """How many runs it has made."""
        return self._row.fired

    @property
    def missed(self) -> int:
        """How many slots passed while no scheduler was there, and got no run."""
        return self._row.missed

    @property
    def skipped(self) -> int:
        """How many slots got no run because an earlier one was live."""
        return self._row.skipped

    @property
    def version(self) -> int:
        """How often it was defined: 1, and one more at each change."""
        return self._row.version

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return self._row.created_at.astimezone(UTC)

    @property
    def updated_at(self) -> datetime:
        """When somebody last changed it."""
        return self._row.updated_at.astimezone(UTC)

    @property
    def row(self) -> ScheduleRow:
        """All that was read."""
        return self._row

    @property
    def when(self) -> str:
        """When it runs, in English."""
        try:
            return self.timetable.explain()
        except BadOption as error:
            return f"unreadable: {error.why}"

    def next(self, count: int = 5, after: datetime | None = None) -> list[datetime]:
        """The slots to come, from the next one on or after an instant, were it not paused."""
        state = state_of(self._row)
        found: list[datetime] = []
        slot = state.next_slot if after is None else state.schedule.next_slot(after)
        left = count
        if state.schedule.max_runs is not None:
            left = min(left, state.schedule.max_runs - state.fired)
        while slot is not None and len(found) < left:
            found.append(slot.astimezone(UTC))
            slot = state.schedule.next_slot(slot)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON has it; times as ISO 8601 in UTC."""
        return {
            "id": self.id,
            "key": self.key,
            "tenant": self.tenant,
            "job": self.job,
            "when": self.when,
            "rule": codec.decode(self._row.rule),
            "input": self.input,
            "overlap": self.overlap.value,
            "enabled": self.enabled,
            "origin": self.origin.value,
            "next_slot": _text(self.next_slot),
            "last_slot": _text(self.last_slot),
            "fired": self.fired,
            "missed": self.missed,
            "skipped": self.skipped,
            "version": self.version,
            "created_at": _text(self.created_at),
            "updated_at": _text(self.updated_at),
        }

    def __repr__(self) -> str:
        return f"<Schedule {self.key or self.id} of {self.job}>"


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else codec.instant_text(moment)
