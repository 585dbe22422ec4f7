"""Runs the checks one after the other, each for a limited time."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from windlass.app import Windlass
from windlass.doctor import clock, demand, reach, schedules, stuck, workers
from windlass.domain.checkup import (
    Finding,
    Limits,
    Report,
    left_out,
    sentence,
    warning,
)
from windlass.errors import WindlassError
from windlass.store.checks import Check, Needs

SECONDS = 5.0
"""How long one check may take."""


def examine(
    app: Windlass, limits: Limits | None = None, *, seconds: float = SECONDS, full: bool = False
) -> Report:
    """Make every check of an application's store; changes nothing, and never raises.

    Each check gets `seconds`; one that takes longer is reported as such, and left behind. `full`
    adds those that read everything, which take as long as they need.
    """
    limits = limits or Limits()
    limits = replace(limits, look=min(limits.look, seconds / 2))
    found: list[Finding] = []
    broken: dict[Needs, str] = {}  # what is not there, by the name of the check that found out
    for check in _checks(app, full=full):
        missing = [name for what, name in broken.items() if what <= check.needs]
        if missing:
            made: Sequence[Finding] = [left_out(f"Not looked at, because of {missing[0]}.")]
        else:
            made = _bounded(check, limits, seconds)
        found += [replace(finding, check=check.name) for finding in made]
        bad = any(finding.severity.rank >= check.spoiled_by.rank for finding in made)
        if check.gives is not None and bad:
            broken[check.gives] = check.name
    return Report(place=app.store.place, findings=found)


def _checks(app: Windlass, *, full: bool) -> Iterator[Check]:
    own = app.store.checks(full=full)
    yield from (check for check in own if check.needs is Needs.NOTHING)
    yield from reach.checks(app)
    yield from (check for check in own if check.needs is not Needs.NOTHING)
    for part in (clock, workers, demand, stuck, schedules):
        yield from part.checks(app)


def _bounded(check: Check, limits: Limits, seconds: float) -> Sequence[Finding]:
    """Make a check in a thread of its own, which may hang for ever: it does not hold up the end."""
    made: list[Finding] = []
    done = threading.Event()

    def make() -> None:
        try:
            made.extend(check.look(limits))
        except (WindlassError, OSError) as problem:
            made.append(_impossible(problem))
        done.set()

    threading.Thread(target=make, name=f"windlass-doctor-{check.name}", daemon=True).start()
    if done.wait(None if check.patient else seconds):
        return made
    text = f"The check took longer than {seconds:g} s and was given up."
    return [warning(text, "Look whether the store is busy, or try again.")]


def _impossible(problem: Exception) -> Finding:
    text = f"The check could not be made: {sentence(problem)}"
    return warning(text, "Mend that, and look again.")
