"""Inline mode: what is enqueued runs at once, before `enqueue` returns.

Through the store all the same: the run is made, claimed, attempted once and recorded, and the Run
that `enqueue` returns is the one that has ended. What its handler raises is raised by `enqueue`. A
failed attempt is not repeated; the run stays as the store has it, scheduled for its next attempt or
failed. Runs for later (delay, at), those that a schedule makes and those of a transaction that is
still open (`connection`) wait for a drain.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from windlass.app import Windlass
from windlass.client import Client, Request, Run
from windlass.domain.run import RunRecord
from windlass.domain.states import Status
from windlass.testing.attempts import result_of
from windlass.testing.faces import Procedure, aperform, perform_anywhere
from windlass.testing.places import clock_of
from windlass.testing.worker import LoneWorker


@contextmanager
def inline(app: Windlass) -> Iterator[Windlass]:
    """Run everything that is enqueued inside the block at once, where it is enqueued."""
    clock_of(app)
    kept = app.client
    app.client = _InlineClient(app)
    try:
        yield app
    finally:
        app.client = kept


class _InlineClient(Client):
    """Enqueues, and runs what it has enqueued."""

    def __init__(self, app: Windlass) -> None:
        super().__init__(app.store, app.sources, app.transport, tenant=app.settings.tenant)
        self._app = app

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Run]:
        """Enqueue, all or none, and run them in this order."""
        runs = super().enqueue(requests)
        if _may_be_undone(requests):
            return runs
        worker = LoneWorker(self._app)
        records = perform_anywhere(self._store, _run_each(worker, runs), worker.leave())
        return [Run(self, record) for record in records]

    async def aenqueue(self, requests: Sequence[Request]) -> Sequence[Run]:
        """As `enqueue`."""
        runs = await super().aenqueue(requests)
        if _may_be_undone(requests):
            return runs
        worker = LoneWorker(self._app)
        records = await aperform(self._store, _run_each(worker, runs), worker.leave())
        return [Run(self, record) for record in records]


def _may_be_undone(requests: Sequence[Request]) -> bool:
    """Whether they belong to a transaction of the caller's: until it commits nobody can claim."""
    return any(request.using.connection is not None for request in requests)


def _run_each(worker: LoneWorker, runs: Sequence[Run]) -> Procedure[Sequence[RunRecord]]:
    yield from worker.arrive()
    found = []
    for run in runs:
        # One that is not queued is for later, or was known by its key and has run already.
        claimed = (yield from worker.take(run.ref)) if run.status is Status.QUEUED else None
        if claimed is not None:
            finish = yield from worker.attempt(worker.hold(claimed))
            yield from worker.record(finish)
            result_of(claimed, finish, worker.runner.raised)
        found.append((yield from worker.read(run.ref)))
    return found
