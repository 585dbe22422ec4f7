"""The clock of the database is set by an hour, ahead and back, under load (F26).

The tokens decide who may write, not the time; so nothing can be recorded twice. But leases are
measured by that clock: no worker may be taken for dead because it was set, none that dies later may
go unnoticed, and workers that start now must get along with those that are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.doctor.kit import checkup, only
from tests.faults.clocks import HOUR, SettableClock
from tests.faults.harness import (
    LEASE,
    Fleet,
    Process,
    Stage,
    eventually,
    make_postgres_stage,
    make_sqlite_stage,
)
from tests.fixtures.postgres import PostgresServer, prepare_template
from windlass.domain.checkup import Severity
from windlass.domain.event import AttemptOutcome

SLACK = timedelta(hours=3)
# Fewer than there are workers: once their worker was killed, these run alone in one each, as jobs
# that no fresh process finds, and do not end before the test does.
HELD = 2


@pytest.fixture
def clock() -> Iterator[SettableClock]:
    """A clock to set."""
    with SettableClock() as made:
        yield made


@pytest.fixture
def postgres_stage(clock: SettableClock, tmp_path: Path) -> Iterator[Stage]:
    """A server that goes by that clock; the workers do not."""
    with PostgresServer(volatile=True, environ=clock.environ) as server:
        url = server.create_database("wl")
        prepare_template(url)
        made = make_postgres_stage(url, tmp_path)
        yield made
        made.close()


@pytest.fixture
def sqlite_stage(clock: SettableClock, tmp_path: Path) -> Iterator[Stage]:
    """A file whose processes go by that clock: it has no other."""
    made = make_sqlite_stage(tmp_path)
    made.environ = clock.environ
    yield made
    made.close()


def test_a_clock_that_is_set_costs_nothing_but_time(
    stage: Stage, fleet: Fleet, clock: SettableClock
) -> None:
    """F26, the short form: back by an hour, then ahead by an hour."""
    endure(stage, fleet, clock, (-HOUR, 0))


@pytest.mark.long
@pytest.mark.timeout(480)
def test_a_clock_that_is_set_again_and_again(
    stage: Stage, fleet: Fleet, clock: SettableClock
) -> None:
    """F26, the long form."""
    endure(stage, fleet, clock, (HOUR, 0, -HOUR, HOUR, -HOUR, 0, 2 * HOUR, 0) * 2)


def endure(stage: Stage, fleet: Fleet, clock: SettableClock, jumps: tuple[int, ...]) -> None:
    schedule = stage.app.schedules.put("load", key="s", interval="1s", input={"n": 0, "ms": 1})
    squad = [fleet.worker() for _ in range(2)]
    fleet.await_workers(*squad)
    held = [stage.app.enqueue("hold", {"n": n}).id for n in range(HELD)]
    stage.await_start(*held)
    client = fleet.client(ms=20)
    await_acks(stage, 30)
    for number, offset in enumerate(jumps):
        before = crashed(stage)
        clock.set(offset)
        await_alive(stage, clock, squad)
        await_acks(stage, 30)
        newcomer = fleet.ready_worker()
        squad.append(newcomer)
        await_work(stage, newcomer)
        assert crashed(stage) == before, "a clock that was set is no crash"
        await_alive(stage, clock, squad)
        if offset < 0:
            held.append(bury(stage, fleet, squad, number))
        else:
            squad.pop(0).terminate()
        await_alive(stage, clock, squad)
    client.kill()
    stage.app.schedules.pause("s")
    stage.witness.raise_flag("release")
    stage.quiet()
    stage.check(acked=[*stage.acked().values(), *held], slack=SLACK)
    slots = Counter(row["slot"] for row in stage.rows("runs") if row["schedule"] is not None)
    assert set(slots.values()) == {1}
    assert stage.app.schedules.get(schedule.id).fired == len(slots)


def bury(stage: Stage, fleet: Fleet, squad: list[Process], number: int) -> str:
    """A worker that dies after the clock was set back is found out as soon as ever."""
    run = stage.app.enqueue("hold", {"n": HELD + number}, priority=10).id
    (line,) = stage.await_start(run)
    holder = next(process for process in squad if process.pid == line.pid)
    squad.remove(holder)
    holder.kill()
    squad.append(fleet.ready_worker())
    eventually(
        lambda: stage.said("starts", run, attempt=2),
        within=LEASE * 6,
        what="the run of a worker that died is taken over",
    )
    return run


def crashed(stage: Stage) -> int:
    return len(stage.rows("attempts", outcome=AttemptOutcome.CRASHED))


def alive(stage: Stage, clock: SettableClock) -> set[int]:
    """The processes whose workers are alive by that clock."""
    now = datetime.now(UTC) + timedelta(seconds=clock.offset)  # noqa: TID251 - as the nemesis
    ahead = now + timedelta(seconds=LEASE * 2)  # a deadline of the time before is no sign of life
    return {row["pid"] for row in stage.rows("workers") if now < row["alive_until"] < ahead}


def await_alive(stage: Stage, clock: SettableClock, squad: list[Process]) -> None:
    wanted = {worker.pid for worker in squad}
    eventually(lambda: alive(stage, clock) >= wanted, what="all workers have renewed")


def await_acks(stage: Stage, more: int) -> None:
    stage.await_lines("acks", len(stage.witness.raw("acks")) + more)


def await_work(stage: Stage, worker: Process) -> None:
    def working() -> bool:
        return any(line.pid == worker.pid for line in stage.witness.lines("effects"))

    eventually(working, what="a worker that has just started gets runs")


@pytest.mark.parametrize(("offset", "words"), [(HOUR, "ahead of"), (-HOUR, "behind")])
def test_the_doctor_finds_a_clock_that_is_off(
    postgres_stage: Stage, clock: SettableClock, offset: int, words: str
) -> None:
    assert only(checkup(postgres_stage.url), "clock").severity is Severity.OK
    clock.set(offset)

    found = only(checkup(postgres_stage.url), "clock")

    assert found.severity is Severity.WARNING
    assert words in found.text
