"""Where an application works, and for whom.

Jobs, schedules, requests and runs hold a :class:`Scope`, never the application. A scope is one
tenant's view of a :class:`Ground`: the store and what belongs to it. All scopes of an application
share one ground, and look at it anew at each use, so that the application can be moved to another
store as a whole (:meth:`Ground.move`). The testing kit and child processes do that; nothing else
changes a ground.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

from windlass.artifacts.place import place_of
from windlass.artifacts.shelf import Shelf
from windlass.client.group import GroupCommit
from windlass.client.tail import Tail
from windlass.config import Settings
from windlass.errors import UsageError
from windlass.sources import Sources
from windlass.store.flow import Act, Flow, arun_flow, run_flow
from windlass.store.interface import Store
from windlass.store.open import open_on_pool, open_store, store_of_workers
from windlass.transport.interface import Transport

if TYPE_CHECKING:
    from windlass.client.requests import Request, UsingOptions
    from windlass.client.run import Run

T = TypeVar("T")


class Asks(Protocol):
    """Makes requests that were checked against the jobs of an application."""

    def asked(
        self, job: str, input: Mapping[str, Any] | None, **options: "Unpack[UsingOptions]"
    ) -> "Flow[Request[Any]]":
        """A run of the job of this name, not enqueued. Raises UnknownJob and BadArguments."""
        ...

    def phases(self, job: str) -> "Flow[Sequence[str]]":
        """The names of its phases, as it is defined now; none if it has no phases."""
        ...


Performer = Callable[[Sequence["Run"]], Act[Sequence["Run"]]]
"""Runs what was just enqueued, at once."""


class Ground:
    """What an application stands on: settings, sources of time and ids, transport, store."""

    settings: Settings
    sources: Sources
    transport: Transport
    store: Store
    group: GroupCommit

    def __init__(
        self,
        settings: Settings,
        sources: Sources,
        transport: Transport,
        store: Store | None = None,
    ) -> None:
        """`store` is one of your own; without it the settings name one."""
        self.performer: Performer | None = None
        self._shelf: tuple[Settings, Shelf] | None = None  # and what it was made of
        self._tail: tuple[Store, Tail] | None = None  # and the store that it follows
        self.requester: Callable[[Scope], Asks] | None = None
        self._stand(settings, sources, transport, store)

    def move(self, settings: Settings, sources: Sources, transport: Transport) -> None:
        """Go to the store that the settings name."""
        self._stand(settings, sources, transport)

    @contextmanager
    def moved(
        self,
        settings: Settings,
        sources: Sources,
        transport: Transport,
        store: Store | None = None,
    ) -> Iterator[None]:
        """Go there, and come back to the store that was left."""
        kept = (self.settings, self.sources, self.transport, self.store, self.group)
        self._stand(settings, sources, transport, store)
        try:
            yield
        finally:
            self.settings, self.sources, self.transport, self.store, self.group = kept

    def borrow_from(self, pool: object, *, compare: bool) -> None:
        """Have calls of the application borrow the connections of its pool.

        Workers keep connections of their own. Another store, to which the ground is moved, has
        nothing to do with the pool.
        """
        self.store = open_on_pool(self.store, pool, compare=compare)
        self.group = GroupCommit(self.store, self.transport)

    @property
    def workers_store(self) -> Store:
        """The store as workers use it: handlers that use up a pool must not cost them leases."""
        return store_of_workers(self.store)

    @property
    def shelf(self) -> Shelf:
        """Where the bytes of artifacts are kept: as the settings say."""
        if self._shelf is None or self._shelf[0] is not self.settings:
            limit, new_id = self.settings.artifact_limit, self.sources.new_id
            self._shelf = (self.settings, Shelf(place_of(self.settings), limit, new_id))
        return self._shelf[1]

    @property
    def tail(self) -> Tail:
        """What follows the feed of the store, for all who listen in this process."""
        if self._tail is None or self._tail[0] is not self.store:
            self._tail = (self.store, Tail(self.workers_store))
        return self._tail[1]

    @contextmanager
    def performing(self, performer: Performer) -> Iterator[None]:
        """Have what is enqueued meanwhile run at once."""
        kept, self.performer = self.performer, performer
        try:
            yield
        finally:
            self.performer = kept

    def _stand(
        self,
        settings: Settings,
        sources: Sources,
        transport: Transport,
        store: Store | None = None,
    ) -> None:
        self.settings = settings
        self.sources = sources
        self.transport = transport
        self.store = open_store(settings, sources) if store is None else store
        self.group = GroupCommit(self.store, transport)


class Scope:
    """One tenant's view of a ground; without a tenant, that of the settings."""

    __slots__ = ("_tenant", "ground")

    def __init__(self, ground: Ground, tenant: str | None = None) -> None:
        self.ground = ground
        self._tenant = tenant

    @property
    def tenant(self) -> str:
        """Whose rows are read and written."""
        return self.ground.settings.tenant if self._tenant is None else self._tenant

    @property
    def store(self) -> Store:
        """All durable state."""
        return self.ground.store

    @property
    def sources(self) -> Sources:
        """Time, ids and randomness."""
        return self.ground.sources

    @property
    def transport(self) -> Transport:
        """How run ids reach workers."""
        return self.ground.transport

    @property
    def settings(self) -> Settings:
        """The application's settings."""
        return self.ground.settings

    @property
    def requester(self) -> Asks:
        """What checks a request against the job's definition."""
        make = self.ground.requester
        if make is None:
            raise UsageError("No application stands on this ground: make a Windlass.")
        return make(self)


class Verbs:
    """What can be done in a scope, as flows. The two faces of each verb are generated from it."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def perform(self, flow: Flow[T]) -> T:
        """Run one of the flows, blocking."""
        return run_flow(self._scope.store, flow)

    async def aperform(self, flow: Flow[T]) -> T:
        """Run one of the flows on the loop."""
        return await arun_flow(self._scope.store, flow)
