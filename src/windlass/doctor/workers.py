"""Is anybody there to work?"""

from collections import Counter
from collections.abc import Iterator, Sequence

from windlass.app import Windlass
from windlass.domain.checkup import Finding, Limits, counted, fine, note, warning
from windlass.domain.inspection import WorkerState
from windlass.duration import format_duration
from windlass.store.checks import Check


def checks(app: Windlass) -> Iterator[Check]:
    """Workers alive, dead and different."""
    yield Check(name="workers", look=lambda limits: _check_workers(app, limits))


def _check_workers(app: Windlass, limits: Limits) -> Iterator[Finding]:
    known = app.workers(runs=0)
    alive = [worker for worker in known if worker.alive]
    left = app.store.run(app.store.operations.backlog(None, None))
    if alive:
        busy, seats = sum(w.busy for w in alive), sum(w.seats for w in alive)
        yield fine(f"{len(alive)} alive, {busy:,} of {seats:,} seats taken.")
    elif left.ready or left.running or left.retrying:
        count = left.ready + left.running + left.retrying
        yield warning(
            f"No worker is alive; {counted(count, 'run')} left to do.", "Start `windlass worker`."
        )
    else:
        yield note("No worker is alive; nothing waits for one.", "Start `windlass worker`.")
    yield from _blocked(alive)
    yield from _dead(known, limits)
    yield from _versions(alive)


def _blocked(alive: Sequence[WorkerState]) -> Iterator[Finding]:
    for worker in alive:
        if worker.blocked is not None:
            who = "" if worker.blocked_run is None else f" by run {worker.blocked_run}"
            yield warning(
                f"The event loop of {worker.id} has been blocked{who} for "
                f"{format_duration(worker.blocked)}: nothing else on it makes headway.",
                "Its log has the stack; let the handler await, or give it an executor.",
            )


def _dead(known: Sequence[WorkerState], limits: Limits) -> Iterator[Finding]:
    dead = [worker for worker in known if worker.lease_left < -limits.late]
    if dead:
        yield warning(
            f"{counted(len(dead), 'dead worker')} not reaped, {dead[0].id} for "
            f"{format_duration(-dead[0].lease_left)}: what they held is stuck.",
            "Start a `windlass worker` without --no-services.",
        )


def _versions(alive: Sequence[WorkerState]) -> Iterator[Finding]:
    versions = Counter(worker.version for worker in alive)
    if len(versions) > 1:
        told = ", ".join(f"{count} of {name}" for name, count in sorted(versions.items()))
        yield note(f"Workers of several versions are alive: {told}.", "Finish the upgrade.")
