"""Durable work under test: stand-ins for steps, answers to signals, crashes at chosen places.

    with stand_in(app, "charge", returns={"id": 7}), answer(app, "paid", {"amount": 7}):
        drain(app, with_scheduled=True)          # sleeps take no time

    with crash_after(app, "charge"):             # the worker dies when it has recorded the step
        drain(app, with_scheduled=True).check()

A name stands for every step of that name, in whichever place and turn; a path (`order/charge#2`)
for that one alone. What is given in a `with` holds for the runs that are drained in it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from windlass import codec
from windlass.app import Windlass
from windlass.errors import UsageError
from windlass.testing.places import clock_of

_NOTHING: Any = object()


class SimulatedCrash(BaseException):
    """A worker has died here, for a test."""


class Said(NamedTuple):
    """An answer to an approval."""

    approved: bool
    by: str | None
    comment: str | None


@dataclass(eq=False)
class TestStage:
    """What a test has put around the steps of an application."""

    __test__ = False

    stand_ins: dict[str, Callable[..., Any]] = field(default_factory=dict)
    crashes: dict[str, int] = field(default_factory=dict)
    answers: dict[str, list[msgspec.Raw]] = field(default_factory=dict)
    approvals: dict[str, Said] = field(default_factory=dict)

    def stand_in(self, path: str) -> Callable[..., Any] | None:
        """What is called in the place of a step."""
        return self.stand_ins.get(path) or self.stand_ins.get(name_of(path))

    def recorded(self, path: str) -> None:
        """Crash, if the worker is to die here."""
        for known in (path, name_of(path)):
            if self.crashes.get(known, 0) > 0:
                self.crashes[known] -= 1
                raise SimulatedCrash(path)

    def answer(self, signal: str) -> msgspec.Raw | None:
        """What a run that waits for a signal is to be sent."""
        waiting = self.answers.get(signal)
        if not waiting:
            return None
        return waiting[0] if len(waiting) == 1 else waiting.pop(0)

    def said_to(self, path: str) -> "Said | None":
        """What people say to an approval that a run asks for."""
        return self.approvals.get(path) or self.approvals.get(name_of(path))


def stage_of(app: Windlass) -> TestStage:
    """What is put around the steps of an application, which must be one under test."""
    clock = clock_of(app)
    if clock.stage is None:
        clock.stage = TestStage()
    assert isinstance(clock.stage, TestStage)
    return clock.stage


def name_of(path: str) -> str:
    """The name of a step, without its place and turn.

    >>> name_of("order/charge#2")
    'charge'
    """
    return path.rpartition("/")[2].partition("#")[0]


@contextmanager
def stand_in(
    app: Windlass,
    step: str,
    *,
    returns: Any = _NOTHING,
    raises: BaseException | None = None,
    calls: Callable[..., Any] | None = None,
) -> Iterator[None]:
    """Call something else in the place of a step: it `returns`, `raises`, or `calls` a function."""
    if (returns is not _NOTHING) + (raises is not None) + (calls is not None) != 1:
        raise UsageError("Give one of returns=, raises= and calls=.")

    def instead(*args: Any, **kwargs: Any) -> Any:
        if raises is not None:
            raise raises
        return returns if calls is None else calls(*args, **kwargs)

    stage = stage_of(app)
    before = stage.stand_ins.get(step)
    stage.stand_ins[step] = instead
    try:
        yield
    finally:
        _restore(stage.stand_ins, step, before)


@contextmanager
def answer(app: Windlass, signal: str, *payloads: Any) -> Iterator[None]:
    """Send a signal to each run that waits for it: the payloads in turn, the last one again and
    again."""
    if not payloads:
        payloads = (None,)
    stage = stage_of(app)
    before = stage.answers.get(signal)
    stage.answers[signal] = [msgspec.Raw(codec.encode(p, what="payload")) for p in payloads]
    try:
        yield
    finally:
        _restore(stage.answers, signal, before)


@contextmanager
def answer_approval(
    app: Windlass,
    name: str = "approval",
    *,
    approved: bool = True,
    by: str | None = None,
    comment: str | None = None,
) -> Iterator[None]:
    """Answer each approval of this name as soon as a run waits for it."""
    stage = stage_of(app)
    before = stage.approvals.get(name)
    stage.approvals[name] = Said(approved, by, comment)
    try:
        yield
    finally:
        _restore(stage.approvals, name, before)


@contextmanager
def crash_after(app: Windlass, step: str, *, times: int = 1) -> Iterator[None]:
    """Let the worker die when it has recorded a step: the run goes on with another attempt."""
    stage = stage_of(app)
    before = stage.crashes.get(step)
    stage.crashes[step] = times
    try:
        yield
    finally:
        _restore(stage.crashes, step, before)


def _restore(kept: dict[str, Any], name: str, before: Any) -> None:
    if before is None:
        kept.pop(name, None)
    else:
        kept[name] = before
