"""Time, ids and randomness: the only module that touches the real ones.

Everything else takes a `Sources`, so that a test can run a month of work under a virtual clock
and a seed. Within Windlass, wall time (`Clock.now`) is for what people read and for what the
store compares; lengths of time are measured with `Clock.monotonic` alone.
"""

import os
import sys
import threading
import time
import weakref
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random, SystemRandom
from typing import Protocol, Self


class Clock(Protocol):
    """Tells wall time and measures lengths of time. Implementations are thread-safe."""

    def now(self) -> datetime:
        """Return the wall time, aware and in UTC. It may jump either way."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment. It never goes back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the wall time in UTC."""
        return datetime.now(UTC)

    if sys.platform == "linux":
        # Unlike CLOCK_MONOTONIC, this one counts the time that a suspended machine slept: a
        # laptop that wakes up must know that its leases have expired.
        def monotonic(self) -> float:
            """Return the seconds since boot, sleep included."""
            return time.clock_gettime(time.CLOCK_BOOTTIME)
    else:

        def monotonic(self) -> float:
            """Return the seconds of the platform's monotonic clock."""
            return time.monotonic()


class ManualClock:
    """A clock that moves only when told to.

    >>> clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    >>> clock.advance(90)
    >>> clock.now().isoformat()
    '2030-01-01T00:01:30+00:00'
    """

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._lock = threading.Lock()
        self._now = _as_utc(start)
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the wall time it was last set to."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """Return the seconds by which it was advanced so far."""
        with self._lock:
            return self._monotonic

    def advance(self, by: float | timedelta) -> None:
        """Let time pass: `by` seconds, which must not be negative."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if step < timedelta(0):
            raise ValueError("time does not run backwards; jump() moves the wall clock alone")
        with self._lock:
            self._now += step
            self._monotonic += step.total_seconds()

    def set(self, to: datetime) -> None:
        """Let time pass until `to`, which must not lie in the past."""
        target = _as_utc(to)
        with self._lock:
            step = target - self._now
            if step < timedelta(0):
                raise ValueError("time does not run backwards; jump() moves the wall clock alone")
            self._now = target
            self._monotonic += step.total_seconds()

    def jump(self, by: float | timedelta) -> None:
        """Move the wall clock alone, either way, as an operator or NTP may."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        with self._lock:
            self._now += step


class Ids:
    """Makes UUIDv7 text (RFC 9562), rising strictly within the process.

    The 48 bits of milliseconds are followed by 74 random bits. Within the same millisecond, and
    while the wall clock is behind an id already given, the last 62 of them are raised by a random
    step: order survives bursts and clock jumps, and a neighbour's id is not simply "plus one".
    A forked child draws anew: it shares nothing with its parent but the past.
    """

    __slots__ = ("__weakref__", "_clock", "_lock", "_millis", "_prefix", "_random", "_tail")

    def __init__(self, clock: Clock, random: Random | None = None) -> None:
        self._clock = clock
        # A generator of its own, seeded by the operating system: a call of getrandom per id would
        # cost as much as the rest together. Ids are identity, not secrets.
        self._random = random or Random()
        self._restart()
        _forkable.add(self)

    def new_id(self) -> str:
        """Return a new id: 36 characters, lower case, greater than all before it."""
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[str]:
        """Return so many new ids, in rising order; all of one instant."""
        # Half a microsecond more than was read: the float's error must not cut a millisecond off.
        millis = int(self._clock.now().timestamp() * 1000 + 0.0005)
        made = []
        with self._lock:
            for _ in range(count):
                if millis > self._millis:
                    self._begin(millis)
                else:
                    self._tail += 1 + self._random.getrandbits(32)
                    if self._tail > _LAST_TAIL:
                        self._begin(self._millis + 1)
                digits = f"{self._tail:016x}"
                made.append(f"{self._prefix}{digits[:4]}-{digits[4:]}")
        return made

    def _begin(self, millis: int) -> None:
        """Enter a millisecond. The tail starts in its lower half, which leaves room to count."""
        self._millis = millis
        time_digits = f"{millis & _LOW_48_BITS:012x}"
        version_7 = f"{0x7000 | self._random.getrandbits(12):04x}"
        self._prefix = f"{time_digits[:8]}-{time_digits[8:]}-{version_7}-"
        self._tail = _FIRST_TAIL | self._random.getrandbits(61)

    def _restart(self) -> None:
        self._lock = threading.Lock()
        self._millis = -1
        self._tail = 0
        self._prefix = ""

    def _after_fork(self) -> None:
        # The lock may be held by a thread that does not exist in this process.
        self._restart()
        self._random.seed()


_LOW_48_BITS = (1 << 48) - 1
# The last 64 bits begin with the variant, binary 10.
_FIRST_TAIL = 0b10 << 62
_LAST_TAIL = _FIRST_TAIL | (1 << 62) - 1

# One hook for all instances: hooks cannot be unregistered, and tests make thousands of them.
_forkable: weakref.WeakSet[Ids] = weakref.WeakSet()


def _renew_ids_after_fork() -> None:
    for ids in list(_forkable):
        ids._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_ids_after_fork)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The clock, ids and randomness that one application uses.

    >>> sources = Sources.manual(seed=7)
    >>> sources.clock.advance(60)
    >>> sources.new_id() < sources.new_id()
    True
    """

    clock: Clock
    ids: Ids
    random: Random

    @classmethod
    def system(cls) -> Self:
        """Return the real ones."""
        clock = SystemClock()
        # SystemRandom has no state, so that forked processes do not jitter in step.
        return cls(clock=clock, ids=Ids(clock), random=SystemRandom())

    @staticmethod
    def manual(
        *,
        start: datetime = datetime(2030, 1, 1, tzinfo=UTC),
        seed: int = 0,
        clock: ManualClock | None = None,
    ) -> "ManualSources":
        """Return a clock that stands still and ids and jitter that repeat with the seed."""
        clock = clock or ManualClock(start)
        ids = Ids(clock, Random(seed))
        return ManualSources(clock=clock, ids=ids, random=Random(seed + 1))

    def now(self) -> datetime:
        """Return the wall time in UTC."""
        return self.clock.now()

    def new_id(self) -> str:
        """Return a new id; each is greater than those before it."""
        return self.ids.new_id()

    def new_ids(self, count: int) -> list[str]:
        """Return so many new ids, in rising order."""
        return self.ids.new_ids(count)

    def new_token(self) -> str:
        """Return a secret of 32 characters that may be part of a URL: 192 random bits."""
        return urlsafe_b64encode(self.random.randbytes(24)).decode()

    def jitter(self) -> float:
        """Return a random number of [0, 1)."""
        return self.random.random()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualSources(Sources):
    """Sources whose clock a test moves."""

    clock: ManualClock


def _as_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("the time must be aware, e.g. datetime(2030, 1, 1, tzinfo=UTC)")
    return moment.astimezone(UTC)
