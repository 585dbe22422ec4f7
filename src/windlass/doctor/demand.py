"""Does everything that is ready have somebody who takes it?"""

from collections.abc import Iterator, Sequence

from windlass.app import Windlass
from windlass.domain.checkup import Finding, Limits, counted, fine, warning
from windlass.domain.inspection import Demand, WorkerState
from windlass.duration import format_duration
from windlass.store.checks import Check

_HEAD = 10_000
_MOST = 10  # findings of one kind: one needs no more to know what is wrong
_GRACE = 2.0  # what has only just become ready may be taken this very moment


def checks(app: Windlass) -> Iterator[Check]:
    """What waits, and for whom."""
    yield Check(name="queues", look=lambda limits: _check_queues(app, limits))


def _check_queues(app: Windlass, limits: Limits) -> Iterator[Finding]:
    found = app.store.run(app.store.operations.inspect_demand(_HEAD))
    alive = [worker for worker in app.workers(runs=0) if worker.alive]
    if not found:
        yield fine("Nothing is ready and waiting.")
    elif not alive:
        return  # told by the check of workers
    else:
        told = [*_unserved(found, alive), *_ignored(found, alive, limits)]
        waiting = sum(demand.waiting for demand in found)
        yield from told[:_MOST] or [
            fine(f"{counted(waiting, 'run')} ready, each with a worker for it.")
        ]


def _unserved(found: Sequence[Demand], alive: Sequence[WorkerState]) -> Iterator[Finding]:
    for demand in found:
        servers = [w for w in alive if w.serves(demand.queue, demand.job)]
        if servers or demand.seconds < _GRACE:
            continue
        what = f"{counted(demand.waiting, 'run')} of {demand.job!r} in queue {demand.queue!r}"
        known = [w for w in alive if demand.job in w.jobs]
        if known:
            advice = f"Start a worker with --queues {demand.queue}, or without --queues."
            yield warning(f"No worker serves {what}.", advice)
        else:
            advice = "Deploy the code that has the job, or cancel the runs."
            yield warning(f"No worker has the job of {what}.", advice)


def _ignored(
    found: Sequence[Demand], alive: Sequence[WorkerState], limits: Limits
) -> Iterator[Finding]:
    """What waits for long although there are seats for it."""
    for demand in found:
        servers = [w for w in alive if w.serves(demand.queue, demand.job)]
        idle = [w for w in servers if w.busy < w.seats]
        if demand.seconds > limits.waiting and idle:
            yield warning(
                f"Runs of {demand.job!r} have been ready in queue {demand.queue!r} for "
                f"{format_duration(demand.seconds)}, although {idle[0].id} has free seats.",
                "Look at that worker's log; a handler may block its event loop, or its seats for "
                "such handlers may all be taken.",
            )
