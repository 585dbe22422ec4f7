"""Bad moments of a PostgreSQL server: what passes is waited out, a bad row is told as such."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.conformance.kit import Driver, requires
from tests.conformance.places import Place, PostgresPlace
from windlass import StoreRefused, StoreUnavailable, Windlass
from windlass.domain.states import Status
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore

PATIENCE = 30.0
# The connection of a call that was undone is not used again.
WAITING = """
select pid from pg_stat_activity
 where datname = current_database() and wait_event_type = 'Lock' and query like '%%cancel%%'
"""


@requires("server")
def test_a_lock_that_outlasts_the_timeouts_of_the_server_is_waited_for(
    place: Place, drive: Driver
) -> None:
    assert isinstance(place, PostgresPlace)
    run = drive.add()
    hasty = place.having(statement_timeout="300ms")  # a lock_timeout our functions set themselves
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(place.url) as owner,
        psycopg.connect(place.url, autocommit=True) as look,
        hasty.open(Sources.system()) as store,
    ):
        owner.execute("select 1 from windlass.ready for update")
        canceled = pool.submit(store.run, store.operations.cancel(run, None))
        seen: set[Any] = set()
        while len(seen) < 3:
            assert not canceled.done(), canceled.exception()
            seen.update(look.execute(WAITING).fetchall())
        owner.rollback()
        assert canceled.result(PATIENCE).status is Status.CANCELED


@requires("server")
def test_a_server_that_has_become_a_standby_is_unavailable(place: Place, drive: Driver) -> None:
    assert isinstance(place, PostgresPlace)
    run = drive.add()
    with (
        psycopg.connect(place.url, autocommit=True) as owner,
        PostgresStore(place.url, sources=Sources.system(), patience=0.0) as store,
    ):
        (name,) = owner.execute("select quote_ident(current_database())").fetchone() or ("",)
        owner.execute(f"alter database {name} set default_transaction_read_only = on")
        with pytest.raises(StoreUnavailable, match="takes no writes"):
            store.run(store.operations.cancel(run, None))
        owner.execute("set default_transaction_read_only = off")
        owner.execute(f"alter database {name} reset default_transaction_read_only")
        assert store.run(store.operations.cancel(run, None)).status is Status.CANCELED


@requires("server")
def test_what_a_server_cannot_hold_is_told_apart_from_its_own_trouble(place: Place) -> None:
    assert isinstance(place, PostgresPlace)
    app = Windlass(place.url)
    with pytest.raises(StoreRefused, match="division by zero"), app.transaction() as tx:
        tx.execute("select 1 / 0")
    app.close()
