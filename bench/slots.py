"""Schedules: how late runs are made when many slots come at once, and what waiting costs."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec

from bench.claims import Counted
from bench.ours import INPUT, Bench, cpu_seconds
from windlass.domain.scheduling.definition import define_schedule
from windlass.domain.scheduling.rows import NewSchedule
from windlass.engine.environment import Environment
from windlass.engine.scheduler import Scheduler

_AT_ONCE = 500
_AHEAD = timedelta(seconds=40)


async def lateness(bench: Bench, schedules: int, due: int) -> list[float]:
    """Seconds from their slot until the runs were made, of schedules that are due together."""
    now = await _now(bench)
    slot = (now + _AHEAD).replace(microsecond=0)
    store = bench.app.store
    new = [_new(bench, n, now, slot if n < due else slot + timedelta(hours=1 + n % 24))
           for n in range(schedules)]  # fmt: skip
    for first in range(0, len(new), _AT_ONCE):
        await store.arun(store.operations.put_schedules(new[first : first + _AT_ONCE]))
    if await _now(bench) > slot:
        raise SystemExit("the schedules were not stored in time for their slot: raise _AHEAD")
    scheduler = _scheduler(bench, store)
    scheduler.start()
    made: list[float] = []
    while len(made) < due:
        await asyncio.sleep(0.2)
        runs = await bench.app.alist(limit=1000)
        made = [(run.created_at - slot).total_seconds() for run in runs]
    await scheduler.stop()
    return made


async def idle(bench: Bench, schedules: int, seconds: float) -> tuple[float, float]:
    """Calls per second and percent of a core of a scheduler whose next slot is far."""
    now = await _now(bench)
    store = bench.app.store
    new = [_new(bench, n, now, now + timedelta(hours=1 + n % 24)) for n in range(schedules)]
    for first in range(0, len(new), _AT_ONCE):
        await store.arun(store.operations.put_schedules(new[first : first + _AT_ONCE]))
    counted = Counted(store)
    scheduler = _scheduler(bench, counted)
    scheduler.start()
    await asyncio.sleep(3)  # it has looked at all of them once, as it does when it starts
    calls, used = counted.calls, cpu_seconds()
    await asyncio.sleep(seconds)
    calls, used = counted.calls - calls, cpu_seconds() - used
    await scheduler.stop()
    return calls / seconds, used / seconds * 100


def _scheduler(bench: Bench, store: Any) -> Scheduler:
    return Scheduler(Environment(store, bench.app.sources))


async def _now(bench: Bench) -> datetime:
    return (await bench.app.store.arun(bench.app.store.operations.due_schedules(0))).now


def _new(bench: Bench, number: int, now: datetime, slot: datetime) -> NewSchedule:
    schedule = define_schedule(now, interval="1d", anchor=slot)
    return NewSchedule(
        id=bench.app.sources.new_id(),
        key=f"s{number}",
        job="noop",
        rule=msgspec.Raw(msgspec.json.encode(schedule.to_json())),
        input=msgspec.Raw(msgspec.json.encode(INPUT)),
        next_slot=slot,
    )
