"""Does everything that is ready have somebody who takes it?"""

from collections import Counter
from collections.abc import Iterator, Sequence

from windlass.app import Windlass
from windlass.domain.checkup import Finding, Limits, counted, fine, warning
from windlass.domain.inspection import Demand, WorkerState
from windlass.domain.pause import PauseKind, pause_over
from windlass.duration import format_duration
from windlass.store.checks import Check

_HEAD = 10_000
_MOST = 10  # findings of one kind: one needs no more to know what is wrong
_GRACE = 2.0  # what has only just become ready may be taken this very moment


def checks(app: Windlass) -> Iterator[Check]:
    """What waits, and for whom."""
    yield Check(name="queues", look=lambda limits: _check_queues(app, limits))


def _check_queues(app: Windlass, limits: Limits) -> Iterator[Finding]:
    waiting = app.store.run(app.store.operations.inspect_demand(_HEAD))
    yield from _paused(app, waiting)
    found = [demand for demand in waiting if demand.waiting > demand.paused]
    alive = [worker for worker in app.workers(runs=0) if worker.alive]
    if not found:
        if not waiting:
            yield fine("Nothing is ready and waiting.")
    elif not alive:
        return  # told by the check of workers
    else:
        told = [*_unserved(found, alive), *_ignored(found, alive, limits)]
        ready = sum(demand.waiting - demand.paused for demand in found)
        yield from told[:_MOST] or [
            fine(f"{counted(ready, 'run')} ready, each with a worker for it.")
        ]


def _paused(app: Windlass, waiting: Sequence[Demand]) -> Iterator[Finding]:
    """Say what waits because somebody has paused its queue or its job."""
    if not any(demand.paused for demand in waiting):
        return
    pauses = app.store.run(app.store.operations.list_pauses(None))
    held: Counter[tuple[PauseKind, str]] = Counter()
    for demand in waiting:
        pause = pause_over(pauses, demand.queue, demand.job)
        if demand.paused and pause is not None:
            held[pause.kind, pause.name] += demand.paused
    for pause in pauses:
        runs = held.pop((pause.kind, pause.name), 0)
        if runs:
            since = format_duration((waiting[0].seen_at - pause.since).total_seconds())
            why = "" if pause.reason is None else f" ({pause.reason})"
            yield warning(
                f"{counted(runs, 'run')} waiting: {pause.kind.value} {pause.name!r} was paused "
                f"{since} ago by {pause.by}{why}.",
                f"If that is over, `windlass {pause.kind.value}s resume {pause.name}`.",
            )


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
