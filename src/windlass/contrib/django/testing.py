"""Tests of a Django project, with TestCase and TransactionTestCase.

    class OrderTests(TestCase):
        def setUp(self):
            self.app = self.enterContext(windlass_in_test())

Runs are then made where the test's own rows are, on a virtual clock, and `windlass.testing` works
with them: `drain(self.app)`, `assert_enqueued(job)`. Handlers, sync and async, run in the thread of
the test, as Django's own async code does in tests, and so find its connections and its transaction.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections

from windlass.app import Windlass
from windlass.contrib.django import get_app
from windlass.contrib.django.databases import AliasWindlass
from windlass.contrib.django.savepoints import HandlerSavepoints
from windlass.domain.scheduling.rules import Moment
from windlass.engine.around import Around
from windlass.sources import Sources
from windlass.testing.bridge import bridged
from windlass.testing.clock import START, VirtualClock
from windlass.testing.places import isolated, moved
from windlass.transport.store import StoreTransport

T = TypeVar("T")


@contextmanager
def windlass_in_test(
    *, start: Moment = START, seed: int = 0, **settings: Any
) -> Iterator[Windlass]:
    """Put the project's application where the test's database is, empty, on a virtual clock.

    With WINDLASS_DATABASE the runs are in the test database: inside the test's transaction in a
    TestCase, so that what is enqueued by `using(connection=connection)` is seen; committed in a
    TransactionTestCase. Otherwise they are in a store of the test's own.
    """
    app = get_app()
    options = {"start": start, "seed": seed, **settings}
    with bridged(ThroughAsgiref()):
        place: AbstractContextManager[object]
        if not isinstance(app, AliasWindlass):
            place = isolated(app, **options)
        elif connections[app.alias].in_atomic_block:
            place = _in_transaction(app, **options)
        else:
            place = _committed(app, **options)
        with place, _hooked(app, HandlerSavepoints()):
            yield app


class ThroughAsgiref:
    """The way between blocking and async code that Django itself goes."""

    def run(self, coroutine: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine; what it does through `sync_to_async` is done in this thread."""

        async def await_it() -> T:  # a function that asgiref knows to be async
            return await coroutine()

        return async_to_sync(await_it)()

    def call(self, function: Callable[[], T]) -> Awaitable[T]:
        """Call a function in the thread of the test."""
        return sync_to_async(function)()


@contextmanager
def _hooked(app: Windlass, hook: Around) -> Iterator[None]:
    app.middleware.around.append(hook)
    try:
        yield
    finally:
        app.middleware.around.remove(hook)


@contextmanager
def _in_transaction(
    app: AliasWindlass, *, start: Moment, seed: int, **settings: Any
) -> Iterator[None]:
    from windlass.store.postgres.borrowed import BorrowedStore

    clock = VirtualClock(start)
    sources = Sources.manual(clock=clock, seed=seed)
    there = app.settings.having(**settings)
    store = BorrowedStore(
        there.url,
        sources=sources,
        session=lambda: _session(app.alias),
        in_thread=ThroughAsgiref().call,
    )
    with app.ground.moved(there, sources, StoreTransport(), store):
        store.clear()
        clock.before_moving(app.schedules.sync)
        yield


@contextmanager
def _committed(app: AliasWindlass, **options: Any) -> Iterator[None]:
    from windlass.store.postgres.borrowed import clear_database

    url = app.settings.url
    clear_database(url)
    try:
        with moved(app, url, **options):
            yield
    finally:
        clear_database(url)


def _session(alias: str) -> object:
    """The driver's connection that Django has open, or opens now."""
    connection = connections[alias]
    connection.ensure_connection()
    return connection.connection
