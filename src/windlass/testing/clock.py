"""The virtual clock: it stands still until a test moves it.

Everything that Windlass writes or compares is told by the application's clock. SQLite writes it;
on PostgreSQL each transaction of a store with such a clock tells `windlass.now()` the time, for
itself alone. So delays, backoff, expiry, keys and schedules follow it on both.

What is *measured* follows it too, on top of the real time that passes: a handler that moves the
clock by an hour has taken an hour, and a wait with a limit still ends.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from windlass.domain.scheduling.rules import Moment, parse_moment
from windlass.duration import Duration, parse_duration
from windlass.errors import UsageError
from windlass.sources import ManualClock, SystemClock

START = "2030-01-01T00:00:00Z"
"""When tests begin: always the same, so that none depends on the day it is run."""


class VirtualClock(ManualClock):
    """The time of a test: `clock.advance("30d")`, `clock.travel("2030-03-31T00:30Z")`."""

    def __init__(self, start: Moment = START) -> None:
        """Start at an instant, or "now"; either way it stands still from then on."""
        self._real = SystemClock()
        super().__init__(self._real.now() if start == "now" else parse_moment("start", start))
        self._before_moving: list[Callable[[], object]] = []
        self.stage: object = None  # what the test has put around durable steps, see `steps.py`

    def monotonic(self) -> float:
        """The seconds that have really passed, and those by which it was moved."""
        return self._real.monotonic() + super().monotonic()

    def advance(self, by: Duration) -> None:
        """Let time pass: seconds, a timedelta, or text such as "90s" or "30d"."""
        seconds = parse_duration(by)
        self._notify()
        super().advance(by if isinstance(by, timedelta) else seconds)

    def travel(self, to: Moment) -> None:
        """Let time pass until an instant, such as "2030-03-31T03:00+02:00"; never back."""
        target = parse_moment("to", to)
        now = self.now()
        if target < now:
            raise UsageError(
                f"The clock shows {now.isoformat()} and cannot go back to {target.isoformat()}: "
                "start the test earlier."
            )
        self._notify()
        super().set(target)

    def set(self, to: datetime) -> None:
        """As `travel`."""
        self.travel(to)

    def before_moving(self, call: Callable[[], object]) -> None:
        """Call this whenever time is about to pass."""
        self._before_moving.append(call)

    def _notify(self) -> None:
        for call in self._before_moving:
            call()
