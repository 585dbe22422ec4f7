"""Tests that never commit: the application inside the transaction of the test.

    with engine.connect() as connection:
        transaction = connection.begin()
        with in_transaction(app, connection):
            ...                               # what is enqueued by using(connection=…) is seen
        transaction.rollback()

A test that rolls everything back keeps its rows from all others, and so from a store with
connections of its own. Here the store has none: each of its calls is made in the test's session, in
a savepoint. PostgreSQL with psycopg 3 alone, sync or async, itself or below SQLAlchemy.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from windlass import guard
from windlass.app import Windlass
from windlass.domain.scheduling.rules import Moment
from windlass.sources import Sources
from windlass.testing.clock import START, VirtualClock
from windlass.transport.store import StoreTransport

T = TypeVar("T")


@contextmanager
def in_transaction(
    app: Windlass, connection: object, *, start: Moment = START, seed: int = 0, **settings: Any
) -> Iterator[Windlass]:
    """Put an application into the transaction of a test, and on a virtual clock, for a while.

    `connection` is one of psycopg 3 or SQLAlchemy, sync or async. Its database must have Windlass'
    schema, and no runs. The options are those of `isolated`.
    """
    from windlass.store.postgres.borrowed import BorrowedStore, url_of_session

    clock = VirtualClock(start)
    sources = Sources.manual(clock=clock, seed=seed)
    url = url_of_session(_driver_connection(connection))
    there = replace(app.settings.having(**settings), url=url)
    store = BorrowedStore(
        url, sources=sources, session=lambda: _driver_connection(connection), in_thread=_here
    )
    with app.ground.moved(there, sources, StoreTransport(), store), guard.allowing(store.place):
        store.refuse_filled()
        clock.before_moving(app.schedules.sync)
        yield app


async def _here(function: Callable[[], T]) -> T:
    """Call it in the thread that asks: test, handler and web framework take turns."""
    return function()


def _driver_connection(connection: Any) -> object:
    """What is below SQLAlchemy's connection, or the connection itself."""
    inner = getattr(connection, "sync_connection", connection)  # of an AsyncConnection
    pooled = getattr(inner, "connection", None)
    return getattr(pooled, "driver_connection", connection)
