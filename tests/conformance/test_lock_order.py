"""Locks: everybody takes rows in one order, so nobody is undone for a deadlock, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, Opened, make_finish, raw, requires
from tests.conformance.places import Place, PostgresPlace
from tests.conformance.test_undone import PATIENCE, waiting
from windlass.domain.outcome import Outcome
from windlass.domain.states import Status

pytestmark = requires("parallel_writers", "server")


@pytest.fixture
def drive(open_real: Opened) -> Driver:
    """A worker, on the machine's clock."""
    return open_real()


@pytest.fixture
def other(place: Place) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Somebody who looks for a deadlock as soon as he waits, and does not wait long."""
    assert isinstance(place, PostgresPlace)
    settings = "-c deadlock_timeout=1ms -c lock_timeout=2s"
    with psycopg.connect(place.url, options=settings) as conn:
        yield conn


def test_ends_of_two_kinds_are_taken_in_one_order(
    place: Place, drive: Driver, other: psycopg.Connection[tuple[Any, ...]]
) -> None:
    """The success is of the second run, the failure of the first; a schedule stops both."""
    first, second = sorted(drive.start_many(2), key=lambda run: run.id)
    ends = [
        make_finish(second, Outcome.SUCCEEDED, result=raw(1)),
        make_finish(first, Outcome.RETRY),
    ]
    stop = "select windlass.stop_run('default', %s, 'a later slot has come')"
    with ThreadPoolExecutor(1) as pool:
        other.execute(stop, (first.id,))
        ending = pool.submit(drive.finish_all, ends)
        waiting(place, 1)

        other.execute(stop, (second.id,))
        other.commit()

        assert ending.result(PATIENCE).lost == ()
    assert drive.get(first.ref).status is Status.CANCELED
    assert drive.get(second.ref).status is Status.SUCCEEDED
    assert violations(History.read(drive.tables)) == []


def test_a_discard_does_not_wait_for_the_end_of_a_live_run(
    drive: Driver, other: psycopg.Connection[tuple[Any, ...]]
) -> None:
    dead, live = drive.start_many(2)
    drive.finish(dead, Outcome.FAILED)
    other.execute(
        "select windlass.succeed(array['default'], array[%s::uuid], array[%s::bigint])",
        (live.id, live.token),
    )
    with psycopg.connect(other.info.dsn, password=other.info.password) as operator:
        operator.execute("set lock_timeout = '2s'")

        found = operator.execute(
            "select windlass.discard('default', array[%s, %s]::uuid[])", (dead.id, live.id)
        ).fetchone()

    other.commit()
    assert found == (1,)
    assert violations(History.read(drive.tables)) == []
