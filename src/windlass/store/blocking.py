"""Blocking calls inside a running event loop: they work, and hold up everything else on it.

One that is quick does no harm, and is often what a program means to do. One that takes long is
most likely an oversight: it is told once for each place that makes it.
"""

import asyncio
import logging
import sys
from pathlib import Path
from types import FrameType, TracebackType

from windlass.sources import Clock

log = logging.getLogger(__name__)

# What asyncio itself calls slow (`loop.slow_callback_duration`): other requests of a web server
# begin to notice, while a commit, even one to a slow disk, stays well below it.
LONG = 0.1
_PACKAGE = "windlass"
_TWINS = {"wait": "await_end"}  # whose name could not be what it would be
_MOST_PLACES = 1_000  # a program has but so many; one that makes up new ones is told again


class BlockingCalls:
    """The blocking calls of one store, and the places that were told of theirs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: set[tuple[str, int]] = set()

    def watch(self) -> "Watched":
        """For the ``with`` around a call: a look at the clock before and after."""
        return Watched(self, self._clock)

    def warn(self, took: float, frame: FrameType) -> None:
        """Say which call it was, as its caller knows it, and what to await in its place."""
        ours, caller = frame, frame.f_back
        while caller is not None and _is_ours(caller):
            ours, caller = caller, caller.f_back
        place = (caller.f_code.co_filename, caller.f_lineno) if caller is not None else ("", 0)
        if place in self._told:
            return
        if len(self._told) >= _MOST_PLACES:
            self._told.clear()
        self._told.add(place)
        call = ours.f_code.co_name
        log.warning(
            "%s() held up the event loop for %d ms, at %s:%d: in async code %s",
            call,
            round(took * 1000),
            Path(place[0]).name,
            place[1],
            _instead(ours, call),
        )


class Watched:
    """One call."""

    __slots__ = ("_began", "_calls", "_clock")

    def __init__(self, calls: BlockingCalls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = self._clock.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        took = self._clock.monotonic() - self._began
        if took > LONG and _on_a_loop():
            self._calls.warn(took, sys._getframe(1))


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE


def _instead(frame: FrameType, call: str) -> str:
    """The async twin of a method has its name with an `a` before it, where there is one."""
    twin = _TWINS.get(call, f"a{call}")
    if hasattr(frame.f_locals.get("self"), twin):
        return f"use `await {twin}(...)`"
    return f"use `await asyncio.to_thread({call}, ...)`"
