"""The watchdog by itself: what counts as silence, and when a loop is left behind."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

import pytest

from tests.engine.test_parts import make_holding
from tests.fixtures.apps import PATIENCE
from windlass.engine.holdings import Holdings
from windlass.engine.watchdog import Blockage, Watchdog
from windlass.sources import ManualClock


class Watched:
    """A watchdog over a loop that stands still, and a clock that moves when told to."""

    def __init__(self) -> None:
        self.holdings = Holdings()
        self.changes: list[Blockage | None] = []
        self.hopeless = threading.Event()
        self._looked = threading.Semaphore(0)
        self.clock = Clockwork(self._looked)
        self.dog = Watchdog(
            self.holdings,
            self.clock,
            lease=0.4,
            worker=lambda: "w",
            noticed=lambda: self.changes.append(self.dog.blockage),
            hopeless=lambda _: self.hopeless.set(),
        )
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        self._loop.run_until_complete(self._start())  # and nobody runs it any more
        self.look()
        return self

    def __exit__(self, *_: object) -> None:
        self.dog.stop()
        self._loop.close()

    def look(self, after: float = 0.0) -> None:
        """Let time pass, and the watchdog look at that to the end."""
        self.clock.advance(after)
        while self._looked.acquire(blocking=False):
            continue
        for _ in range(2):
            assert self._looked.acquire(timeout=PATIENCE)

    def answer(self) -> None:
        """Let the loop run, once."""
        self._loop.run_until_complete(asyncio.sleep(0))

    def blockage(self) -> Blockage | None:
        """What a renewal would hear now."""
        return self.dog.blockage

    async def _start(self) -> None:
        self.dog.start()


class Clockwork(ManualClock):
    """Tells when somebody has looked at it."""

    def __init__(self, looked: threading.Semaphore) -> None:
        super().__init__()
        self._looked = looked

    def monotonic(self) -> float:
        """Return the seconds by which it was advanced so far."""
        self._looked.release()
        return super().monotonic()


def test_time_in_which_nobody_could_look_does_not_count() -> None:
    """The process was stopped, the machine slept, or something else had the processor."""
    with Watched() as watched:
        watched.look(after=3600.0)
        assert watched.blockage() is None
        watched.look(after=1.0)
        watched.look(after=1.0)
        found = watched.blockage()
        assert found is not None
        assert found.seconds == pytest.approx(0.3)
        assert len(watched.changes) == 1


def test_an_answer_counts_at_once() -> None:
    with Watched() as watched:
        for _ in range(5):
            watched.look(after=1.0)
        assert watched.blockage() is not None
        watched.answer()
        assert watched.blockage() is None  # whoever renews now vouches for everything
        watched.look()
        assert [change is None for change in watched.changes] == [False, False, True]


def test_a_loop_that_is_blocked_when_the_grace_is_over_is_left_if_it_holds_runs() -> None:
    with Watched() as watched:
        watched.dog.expect_stop(5.0)
        watched.holdings.add(make_holding())
        for _ in range(6):
            watched.look(after=1.0)
        assert watched.blockage() is not None
        assert not watched.hopeless.is_set()  # it may come back, and end in good order
        watched.clock.advance(1.0)
        assert watched.hopeless.wait(PATIENCE)


def test_a_loop_that_is_blocked_in_its_end_is_not_left() -> None:
    """A resource takes its time to close: nothing is held, and nobody has to wait for it."""
    with Watched() as watched:
        watched.dog.expect_stop(0.0)
        for _ in range(4):
            watched.look(after=10.0)
        assert watched.blockage() is not None
        assert not watched.hopeless.is_set()


def test_a_watchdog_can_be_told_of_a_stop_before_it_starts() -> None:
    watched = Watched()
    watched.dog.expect_stop(0.0)
    with watched:
        watched.holdings.add(make_holding())
        watched.look(after=10.0)
        watched.clock.advance(10.0)
        assert watched.hopeless.wait(PATIENCE)
