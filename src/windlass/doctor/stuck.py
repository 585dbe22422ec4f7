"""Does anything run that should have ended?"""

from collections.abc import Iterator

from windlass.app import Windlass
from windlass.domain.checkup import Finding, Limits, counted, fine, warning
from windlass.domain.inspection import Overdue
from windlass.duration import format_duration
from windlass.store.checks import Check

_MOST = 100
_SHOWN = 3


def checks(app: Windlass) -> Iterator[Check]:
    """Runs beyond their timeout, or beyond their worker's end."""
    yield Check(name="running", look=lambda limits: _check_running(app, limits))


def _check_running(app: Windlass, limits: Limits) -> Iterator[Finding]:
    found = app.store.run(app.store.operations.inspect_overdue(limits.late, _MOST))
    abandoned = [run for run in found if run.abandoned]
    late = [run for run in found if not run.abandoned]
    if not found:
        yield fine("Nothing runs beyond its timeout, or beyond the end of its worker.")
    if abandoned:
        yield warning(
            f"{counted(len(abandoned), 'run')} of dead workers not taken back: "
            f"{_names(abandoned)}.",
            "Start a `windlass worker` without --no-services.",
        )
    for run in late[:_SHOWN]:
        running = format_duration((run.seen_at - run.started_at).total_seconds())
        yield warning(
            f"Run {run.id} of {run.job!r} has been running on {run.worker} for {running}; its "
            f"timeout is {format_duration(run.timeout or 0)}.",
            "Its handler does not let itself be stopped, or blocks the event loop: look at that "
            "worker, and restart it.",
        )


def _names(found: list[Overdue]) -> str:
    return ", ".join(run.id for run in found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
