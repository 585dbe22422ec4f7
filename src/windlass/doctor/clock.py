"""Has the store's clock gone back? Workers' renewals are then in its future."""

from collections.abc import Iterator

from windlass.app import Windlass
from windlass.domain.checkup import Finding, Limits, warning
from windlass.store.checks import Check


def checks(app: Windlass) -> Iterator[Check]:
    """The store's clock, by what was written by it."""
    yield Check(name="store's clock", look=lambda limits: _check_clock(app, limits))


def _check_clock(app: Windlass, limits: Limits) -> Iterator[Finding]:
    for worker in app.workers(runs=0):
        ahead = ((worker.renewed_at or worker.seen_at) - worker.seen_at).total_seconds()
        if ahead > limits.skew:
            yield warning(
                f"The store's clock was set back by at least {ahead:,.0f} s: worker {worker.id} "
                "renewed its lease later than now.",
                "Nothing is lost, but should that worker be dead, its runs are taken back only "
                "when the clock has come so far again; keep clocks in step by NTP.",
            )
            return
