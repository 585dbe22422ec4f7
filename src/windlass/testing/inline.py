"""Inline mode: what is enqueued runs at once, before `enqueue` returns.

Through the store all the same: the run is made, claimed, attempted once and recorded, and the Run
that `enqueue` returns is the one that has ended. What its handler raises is raised by `enqueue`. A
failed attempt is not repeated; the run stays as the store has it, scheduled for its next attempt or
failed. Runs for later (delay, at), those that a schedule makes and those of a transaction that is
still open (`connection`) wait for a drain.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from windlass.app import Windlass
from windlass.client import Run
from windlass.domain.run import RunRecord
from windlass.domain.states import Status
from windlass.store.interface import Store
from windlass.testing.attempts import result_of
from windlass.testing.faces import Procedure, aperform, perform_anywhere
from windlass.testing.places import clock_of
from windlass.testing.worker import LoneWorker


@contextmanager
def inline(app: Windlass) -> Iterator[Windlass]:
    """Run whatever the block enqueues at once, before `enqueue` returns."""
    clock_of(app)
    with app.ground.performing(lambda runs: _Inline(app, runs)):
        yield app


@dataclass(frozen=True, slots=True)
class _Inline:
    """Run what was just enqueued, in this order."""

    app: Windlass
    runs: Sequence[Run]

    def run(self, store: Store) -> Sequence[Run]:
        worker = LoneWorker(self.app)
        records = perform_anywhere(store, _run_each(worker, self.runs), worker.leave())
        return [run.become(record) for run, record in zip(self.runs, records, strict=True)]

    async def arun(self, store: Store) -> Sequence[Run]:
        worker = LoneWorker(self.app)
        records = await aperform(store, _run_each(worker, self.runs), worker.leave())
        return [run.become(record) for run, record in zip(self.runs, records, strict=True)]


def _run_each(worker: LoneWorker, runs: Sequence[Run]) -> Procedure[Sequence[RunRecord]]:
    yield from worker.arrive()
    found = []
    for run in runs:
        # One that is not queued is for later, or was known by its key and has run already.
        claimed = (yield from worker.take(run.ref)) if run.status is Status.QUEUED else None
        if claimed is not None:
            finish = yield from worker.attempt(worker.hold(claimed))
            finish = yield from worker.record(finish)
            result_of(claimed, finish, worker.runner.raised)
        found.append((yield from worker.read(run.ref)))
    return found
