"""Schedulers that are killed, stopped and wrong about the time: each slot makes one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from tests.faults.harness import Fleet, Process, Stage, eventually, rest
from windlass import Schedule
from windlass.sources import Sources

SECOND = timedelta(seconds=1)


def test_slots_equal_the_oracles_whoever_is_killed(stage: Stage, fleet: Fleet) -> None:
    """F12, the short form."""
    disturb(stage, fleet, schedules=20, schedulers=4, blows=8)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_slots_equal_the_oracles_for_long(stage: Stage, fleet: Fleet) -> None:
    """F12, the long form: 8 schedulers, 50 schedules of a second each, half a minute."""
    disturb(stage, fleet, schedules=50, schedulers=8, blows=60)


def disturb(stage: Stage, fleet: Fleet, *, schedules: int, schedulers: int, blows: int) -> None:
    made = [
        stage.app.schedules.put(
            "load", key=f"s{n}", interval="1s", catch_up="all(max=10000)", input={"n": n, "ms": 1}
        )
        for n in range(schedules)
    ]
    squad = [fleet.scheduler() for _ in range(schedulers)]
    eventually(
        lambda: len(stage.witness.raw("begun")) >= schedulers, what="the schedulers have begun"
    )
    dice = Sources.manual(seed=schedulers * blows).random
    stopped: list[Process] = []
    for _ in range(blows):
        rest(0.5)
        while stopped and dice.random() < 0.7:
            stopped.pop().go_on()
        number = dice.randrange(schedulers)
        victim = squad[number]
        if victim in stopped:
            continue
        if dice.random() < 0.5:
            victim.kill()
            squad[number] = fleet.scheduler()
        elif len(stopped) < schedulers - 1:  # one that was stopped in a commit holds its lock
            victim.stop()
            stopped.append(victim)
    for zombie in stopped:
        zombie.go_on()
    at_the_end(stage, made, squad)


def at_the_end(stage: Stage, made: Sequence[Schedule], squad: Sequence[Process]) -> None:
    """Let them catch up, end them, and compare with what every second of that time asks for."""
    end = stage.app.schedules.get(made[0].id).next_slot
    assert end is not None

    def caught_up() -> bool:
        rows = [stage.app.schedules.get(one.id) for one in made]
        return all(row.next_slot is not None and row.next_slot > end for row in rows)

    eventually(caught_up, what="every schedule has come past the end")
    eventually(lambda: begun(stage, squad), what="those that were started last listen to signals")
    for process in squad:
        process.terminate()
    for process in squad:
        assert process.wait(10.0) == 0
    for one in made:
        judge(stage, one, SECOND)


def begun(stage: Stage, squad: Sequence[Process]) -> bool:
    return {str(process.pid) for process in squad} <= {*stage.witness.raw("begun")}


def judge(stage: Stage, schedule: Schedule, interval: timedelta) -> None:
    """The slots are those of the rule, without a gap, and each has one run."""
    now = stage.app.schedules.get(schedule.id)
    first, last = schedule.next_slot, now.last_slot
    assert first is not None
    assert last is not None
    count = (last - first) // interval + 1
    oracle = [first + n * interval for n in range(count)]  # by nothing but addition
    rows = [row for row in stage.rows("schedule_slots") if str(row["schedule"]) == schedule.id]
    runs = [row for row in stage.rows("runs") if str(row["schedule"]) == schedule.id]
    assert Counter(row["slot"] for row in runs) == Counter(oracle)
    assert sorted(row["slot"] for row in rows) == oracle
    assert {row["outcome"] for row in rows} == {"fired"}
    assert (now.fired, now.missed, now.skipped) == (len(oracle), 0, 0)
    assert now.next_slot == last + interval


def test_clocks_that_are_off_double_and_lose_nothing(stage: Stage, fleet: Fleet) -> None:
    """F13: one scheduler is an hour ahead, one an hour behind; then the other way round."""
    # A file has no clock of its own: who is ahead fires an hour's slots early, and once. A server
    # has, whatever the schedulers believe: there the slots must come while they look.
    interval, more = (
        (timedelta(minutes=1), timedelta(hours=1)) if sqlite(stage) else (SECOND, 2 * SECOND)
    )
    made = [
        stage.app.schedules.put(
            "load", key=f"s{n}", interval=interval, catch_up="all(max=10000)",
            anchor=stage.app.sources.now() - timedelta(minutes=3, seconds=n),
            input={"n": n, "ms": 1},
        )
        for n in range(5)
    ]  # fmt: skip
    for skews in ((3600.0, -3600.0), (-3600.0, 3600.0)):
        # What both find due, the first has fired before the second can.
        squad = [fleet.scheduler(skew=skew, linger=n / 5) for n, skew in enumerate(skews, 1)]
        stage.await_lines("begun", len(fleet.processes))
        await_past(stage, made, now_there(stage) + more)
        for process in squad:
            process.terminate()
            assert process.wait(10.0) == 0
    for one in made:
        judge(stage, one, interval)
        if not sqlite(stage):
            slot = stage.app.schedules.get(one.id).next_slot
            assert slot is not None
            assert slot <= now_there(stage) + interval


def sqlite(stage: Stage) -> bool:
    return stage.url.startswith("sqlite")


def now_there(stage: Stage) -> datetime:
    return stage.app.store.run(stage.app.store.operations.due_schedules(0)).now


def await_past(stage: Stage, made: Sequence[Schedule], target: datetime) -> None:
    def past() -> bool:
        found = [stage.app.schedules.get(one.id).next_slot for one in made]
        return all(slot is not None and slot > target - SECOND for slot in found)

    eventually(past, what="they have caught up")
