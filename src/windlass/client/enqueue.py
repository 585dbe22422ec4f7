"""From checked requests to runs: in a transaction of our own, or in the caller's."""

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.client.announce import publish_created
from windlass.client.handles import Handles
from windlass.client.requests import Request, shared_connection
from windlass.client.run import Run
from windlass.client.scope import Scope
from windlass.current import current_run
from windlass.domain.run import Enqueued, NewRun
from windlass.store.callers_transaction import AsyncTransaction, Joined, Transaction
from windlass.store.flow import Flow, Hint
from windlass.store.interface import Store


def enqueue(
    scope: Scope, requests: Sequence[Request], ids: Sequence[str] | None = None
) -> Flow[Sequence[Run]]:
    """Enqueue in one round trip, all or none; under new ids, unless they are given."""
    if not requests:
        return []
    connection = shared_connection(requests)
    tenant = scope.tenant
    ids = ids or scope.sources.new_ids(len(requests))
    by = current_run()
    if by is not None and by.tenant != tenant:
        by = None
    runs = [request.new_run(id, tenant, by) for request, id in zip(requests, ids, strict=True)]
    if connection is not None:
        joined: Joined = yield _Join(scope, connection, runs)
        return Handles(scope, requests, runs, *joined)
    answers: Sequence[Enqueued] = yield _Insert(scope, runs)
    known = [answer.id for answer in answers if not answer.created]
    records = (yield scope.store.operations.get_runs(scope.tenant, known)) if known else ()
    made = Handles(scope, requests, runs, answers, records)
    perform = scope.ground.performer
    if perform is None:
        return made
    performed: Sequence[Run] = yield perform(made)
    return performed


@dataclass(frozen=True, slots=True)
class _Insert:
    """Insert runs and hint to workers; on a loop, together with whoever else enqueues there."""

    scope: Scope
    runs: Sequence[NewRun]

    def run(self, store: Store) -> Sequence[Enqueued]:
        answers = store.run(store.operations.enqueue(self.runs))
        if publish_created(self.scope.transport, self.runs, answers):
            store.notify()
        return answers

    async def arun(self, store: Store) -> Sequence[Enqueued]:
        return await self.scope.ground.group.enqueue(self.runs)


@dataclass(frozen=True, slots=True)
class _Join:
    """Enqueue in the caller's transaction.

    Workers can be notified only once that has committed, and we learn of it only if the transaction
    is one of ours. After any other, the store's hint comes with the commit, and the message of a
    transport with its sweep.
    """

    scope: Scope
    connection: object
    runs: Sequence[NewRun]

    def run(self, store: Store) -> Joined:
        joined = store.join(self.connection, self.runs)

        def announce() -> None:
            if publish_created(self.scope.transport, self.runs, joined.answers):
                Hint().run(store)

        if isinstance(self.connection, Transaction):
            self.connection.after_commit(announce)
        return joined

    async def arun(self, store: Store) -> Joined:
        joined = await store.ajoin(self.connection, self.runs)

        async def announce() -> None:
            if publish_created(self.scope.transport, self.runs, joined.answers):
                await Hint().arun(store)

        if isinstance(self.connection, AsyncTransaction):
            self.connection.after_commit(announce)
        return joined
