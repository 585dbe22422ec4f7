"""Do this machine and the server agree on the time?

Only the server's clock is written, so nothing breaks where they do not. But instants that this
machine names (`at=`, `once=`) come too early or too late, and ids do not sort by age.
"""

from collections.abc import Iterator
from datetime import datetime

from windlass.domain.checkup import Finding, Limits, fine, note, warning
from windlass.sources import Clock
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import Asking
from windlass.store.postgres.instants import instant

_MUCH = 60.0


def checks(ask: Asking, clock: Clock) -> Iterator[Check]:
    """The difference of the two clocks."""
    yield Check(
        name="clock", look=lambda limits: _check_clock(ask, clock, limits), needs=Needs.STORE
    )


def _check_clock(ask: Asking, clock: Clock, limits: Limits) -> Iterator[Finding]:
    before = clock.now()
    (there,) = ask.row("server_clock")
    yield judge(before, instant(there), clock.now(), limits)


def judge(before: datetime, there: datetime, after: datetime, limits: Limits) -> Finding:
    """What it means that the server told this time between those two."""
    # Between the two instants nothing can be told: only what lies outside of them is a skew.
    skew = max((there - after).total_seconds(), (before - there).total_seconds(), 0.0)
    direction = "ahead of" if there > after else "behind"
    if skew <= limits.skew:
        return fine("This machine and the server agree on the time.")
    text = f"The server's clock is {skew:,.1f} s {direction} that of this machine."
    advice = "Keep both in step by NTP; instants that this machine names are off by that much."
    return warning(text, advice) if skew > _MUCH else note(text, advice)
