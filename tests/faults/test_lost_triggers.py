"""Operators whose reply is lost: a repeated trigger or backfill makes no second run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.faults.harness import Stage, through
from tests.faults.programs.jobs import define_jobs
from tests.faults.proxy import Fault, Proxy
from windlass import Windlass

FIRST, LAST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 2, tzinfo=UTC)


@pytest.fixture
def remote(postgres_stage: Stage, proxy: Proxy) -> Iterator[Windlass]:
    """An application whose way to the database can be disturbed."""
    app = Windlass(through(proxy, postgres_stage.url), **postgres_stage.settings)
    define_jobs(app, postgres_stage.witness)
    app.enqueue("load", {"n": 1, "ms": 1}).cancel()  # connected, its schema looked at
    yield app
    app.close()


@pytest.mark.parametrize("overlap", ["allow", "skip", "queue", "cancel_running"])
def test_a_trigger_whose_reply_is_lost_makes_one_run(
    postgres_stage: Stage, proxy: Proxy, remote: Windlass, overlap: str
) -> None:
    """The store repeats the call; its own run must not stand in its way."""
    terms = {"n": 1, "ms": 1}
    remote.schedules.put("load", key="k", input=terms, interval="1h", overlap=overlap)
    rule = proxy.expect(Fault.LOSE_REPLY, "windlass.fire_schedules", times=2)

    run = remote.schedules.trigger("k")

    assert rule.times == 0, "the fault did not happen"
    assert run is not None
    (row,) = [row for row in postgres_stage.rows("runs") if row["schedule"] is not None]
    assert row["id"] == run.id
    assert remote.schedules.get("k").fired == 1
    postgres_stage.check(settled=False)


def test_a_backfill_whose_reply_is_lost_names_its_runs(
    postgres_stage: Stage, proxy: Proxy, remote: Windlass
) -> None:
    remote.schedules.put(
        "load", key="k", input={"n": 1, "ms": 1}, interval="1h", anchor=FIRST, start=FIRST
    )
    rule = proxy.expect(Fault.LOSE_REPLY, "windlass.fire_schedules")

    made = remote.schedules.backfill("k", FIRST, LAST)

    assert rule.times == 0, "the fault did not happen"
    rows = [row for row in postgres_stage.rows("runs") if row["schedule"] is not None]
    assert {run.id for run in made.runs} == {row["id"] for row in rows}
    assert len(rows) == 3
    postgres_stage.check(settled=False)
