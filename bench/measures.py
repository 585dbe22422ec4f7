"""What is measured, and how it is reported: one function for each word of `--only`."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from bench import claims, durable, held, pickup, raw_postgres, raw_sqlite, sizes, slots
from bench.ours import Bench, cpu_seconds, run
from bench.places import Place
from bench.report import Figure, Report, median
from bench.server import cpu_of_backends

T = TypeVar("T")

_HELD = 150_000  # runs: enough to bury the head of the queue under what cannot be cleaned up


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is measured."""

    runs: int
    backlog: int
    rounds: int


def measure_single(place: Place, report: Report, extent: Extent) -> None:
    """One enqueue at a time, sync face; and many coroutines at once, async face."""
    count = 3000
    mine, bare = _in_turns(
        extent.rounds,
        lambda: _blocking(place, lambda bench, _: bench.enqueue(count, 1)),
        lambda: _bare(place, lambda raw, where: raw.enqueue_one_by_one(where, count)),
    )
    _add(report, place, "enqueue, one by one", mine, "/s", raw=bare)
    rates = [
        _on(place, lambda bench, _: bench.enqueue_concurrently(20_000, 50))
        for _ in range(extent.rounds)
    ]
    _add(report, place, "enqueue, 50 coroutines", median(rates), "/s")


def measure_bulk(place: Place, report: Report, extent: Extent) -> None:
    """A thousand runs at a time."""
    server: list[float] = []

    def enqueue(bench: Bench, url: str) -> float:
        rate = bench.enqueue(extent.runs, 1000)
        _keep_server_cpu(server, place, url, extent.runs)
        return rate

    mine, bare = _in_turns(
        extent.rounds,
        lambda: _blocking(place, enqueue),
        lambda: _bare(place, lambda raw, where: raw.enqueue_bulk(where, extent.runs, 1000)),
    )
    _add(report, place, "enqueue, by thousands", mine, "/s", raw=bare)
    if server:
        _add(report, place, "enqueue by thousands, CPU of the server", median(server), "us")


def measure_drain(place: Place, report: Report, extent: Extent) -> None:
    """One worker process, no-op handlers, everything recorded."""
    used: list[float] = []
    server: list[float] = []

    async def drain(bench: Bench, url: str) -> float:
        bench.enqueue(extent.runs, 1000)
        bench.app.close()  # so that the backends are the worker's alone
        rate, cpu = await bench.drain_what_waits(extent.runs)
        used.append(cpu)
        _keep_server_cpu(server, place, url, extent.runs)
        return rate

    mine, bare = _in_turns(
        extent.rounds,
        lambda: _on(place, drain),
        lambda: _bare(place, lambda raw, where: raw.drain(where, extent.runs)),
    )
    _add(report, place, "drain, one worker", mine, "/s", raw=bare)
    _add(report, place, "drain, CPU of the worker", median(used), "us")
    if server:
        _add(report, place, "drain, CPU of the server", median(server), "us")


def measure_held(place: Place, report: Report, extent: Extent) -> None:
    """A drain beside a transaction that holds a snapshot, against one without."""
    if place.is_file:
        return  # a reader of SQLite keeps nothing from being used again but the log
    count = max(extent.runs, _HELD)

    async def free(bench: Bench, url: str) -> float:
        return (await bench.drain(count))[0]

    mine, usual = _in_turns(
        extent.rounds,
        lambda: _on(place, lambda bench, url: held.drain(bench, url, count)),
        lambda: _on(place, free),
    )
    note = f"{mine / usual:.2f}x of {usual:,.0f} without; {count:,} runs"
    _add(report, place, "drain, beside a held snapshot", mine, "/s", note=note)


def measure_sizes(place: Place, report: Report, extent: Extent) -> None:
    """Bytes per run, in the store and in the log."""
    found = _on(place, lambda bench, url: sizes.measure(bench, url, 100_000))
    for what, value in (
        ("size of a run that waits", found.waiting),
        ("size of a run that has ended", found.ended),
        ("log, enqueue by thousands", found.log_enqueue),
        ("log, from claim to end", found.log_drain),
    ):
        if value is not None:
            _add(report, place, what, value, "B")


def measure_latency(place: Place, report: Report, extent: Extent) -> None:
    """From before the enqueue to the handler's start, worker idle; and where the time goes."""
    here = _on(place, lambda bench, _: pickup.same_process(bench, 200))
    with place.fresh() as url:
        there = pickup.two_processes(url, 200)
    for where, found in (("same process", here), ("two processes", there)):
        what = f"pickup, {where}"
        _add(
            report, place, f"{what}, p50", pickup.share(found, 0.5), "ms",
            note=pickup.stages(found),
        )  # fmt: skip
        _add(report, place, f"{what}, p99", pickup.share(found, 0.99), "ms")


def measure_claims(place: Place, report: Report, extent: Extent) -> None:
    """What a claim costs with a small and with a large backlog."""
    found = []
    for backlog in (10_000, extent.backlog):
        with place.fresh() as url:
            found.append(claims.claim_times(url, backlog, (1, 100), 40))
    small, large = found
    for size in (1, 100):
        low, high = median(small[size]) * 1000, median(large[size]) * 1000
        note = f"{high / low:.2f}x of {low:.3g} ms at 10,000"
        _add(report, place, f"claim of {size}, backlog {extent.backlog:,}", high, "ms", note=note)


def measure_idle(place: Place, report: Report, extent: Extent) -> None:
    """A worker with nothing to do: calls of the store and CPU."""

    async def idle(bench: Bench, url: str) -> tuple[float, float]:
        counted = claims.Counted(bench.app.store)
        worker = claims.worker_on(counted, bench.app)
        task = asyncio.create_task(worker.run())
        await asyncio.sleep(3)
        calls, used = counted.calls, cpu_seconds()
        await asyncio.sleep(10)
        calls, used = counted.calls - calls, cpu_seconds() - used
        await bench.stop(worker, task)
        return calls / 10, used / 10 * 100

    calls, used = _on(place, idle)
    _add(report, place, "idle worker, calls of the store", calls, "/s")
    _add(report, place, "idle worker, of one core", used, "%")


def measure_memory(place: Place, report: Report, extent: Extent) -> None:
    """Memory of a worker's process after many runs."""
    code = (
        "import sys; from bench import claims; from bench.ours import run; "
        "run(claims.memory(sys.argv[1], int(sys.argv[2])))"
    )
    with place.fresh() as url:
        done = subprocess.run(
            [sys.executable, "-c", code, url, str(extent.backlog)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    first, last = map(float, done.stdout.split())
    what = f"memory of a worker after {extent.backlog:,} runs"
    _add(report, place, what, last, "MB", note=f"{first:.0f} MB after the first 50,000")


def measure_schedules(place: Place, report: Report, extent: Extent) -> None:
    """10,000 schedules: 1,000 that come in the same second, and none that comes."""
    late = _on(place, lambda bench, _: slots.lateness(bench, 10_000, 1_000))
    what = "1,000 slots at once, the last run made after"
    note = f"median {median(late):.2f} s; 10,000 schedules"
    _add(report, place, what, max(late), "s", note=note)
    calls, used = _on(place, lambda bench, _: slots.idle(bench, 10_000, 20))
    note = f"{used:.2f} % of a core; 10,000 schedules, no slot near"
    _add(report, place, "idle scheduler, calls of the store", calls, "/s", note=note)


def measure_durable(place: Place, report: Report, extent: Extent) -> None:
    """Recorded steps, their replay, children and back, signals."""
    rates = [_on(place, lambda b, _: durable.record_steps(b, 100)) for _ in range(extent.rounds)]
    _add(report, place, "recorded steps, 100 runs beside each other", median(rates), "/s")
    replays = [_on(place, lambda b, _: durable.replay(b)) for _ in range(extent.rounds)]
    _add(report, place, "replay of 1,000 steps", median(replays), "ms")
    fans = [_on(place, lambda b, _: durable.fan_out(b, 10_000)) for _ in range(extent.rounds)]
    _add(report, place, "10,000 children and back", median(fans), "/s")
    took = _on(place, lambda b, _: durable.resume(b, 100))
    _add(report, place, "signal to resume, p50", median(took) * 1e3, "ms")


def measure_batches(place: Place, report: Report, extent: Extent) -> None:
    """A batch of a million units, from a range and from an iterator."""
    for staged, origin in ((False, "a range"), (True, "an iterator, enqueued too")):

        def work(bench: Bench, _: str, staged: bool = staged) -> Awaitable[tuple[float, float]]:
            return durable.run_units(bench, 1_000_000, staged=staged)

        rates, of_cpu = _on(place, work)
        note = f"{of_cpu:,.0f} per second of CPU"
        _add(report, place, f"a batch of 1,000,000 units from {origin}", rates, "/s", note=note)


MEASURES: dict[str, Callable[[Place, Report, Extent], None]] = {
    "single": measure_single,
    "bulk": measure_bulk,
    "drain": measure_drain,
    "held": measure_held,
    "sizes": measure_sizes,
    "latency": measure_latency,
    "durable": measure_durable,
    "batches": measure_batches,
    "claims": measure_claims,
    "idle": measure_idle,
    "memory": measure_memory,
    "schedules": measure_schedules,
}


def _add(
    report: Report,
    place: Place,
    what: str,
    value: float,
    unit: str,
    *,
    raw: float | None = None,
    note: str = "",
) -> None:
    report.add(Figure(store=place.name, what=what, value=value, unit=unit, raw=raw, note=note))


def _in_turns(
    rounds: int, mine: Callable[[], float], bare: Callable[[], float]
) -> tuple[float, float]:
    """Measure both in turns, so that the machine's moods hit both; return the medians."""
    pairs = [(mine(), bare()) for _ in range(rounds)]
    return median([pair[0] for pair in pairs]), median([pair[1] for pair in pairs])


def _keep_server_cpu(found: list[float], place: Place, url: str, runs: int) -> None:
    """Keep what the server has spent on each run, where it can be known."""
    if not place.is_file and (spent := cpu_of_backends(url)) is not None:
        found.append(spent / runs * 1e6)


def _blocking(place: Place, measure: Callable[[Bench, str], float]) -> float:
    with place.fresh() as url:
        bench = Bench(url)
        try:
            return measure(bench, url)
        finally:
            bench.app.close()


def _on(place: Place, measure: Callable[[Bench, str], Awaitable[T]]) -> T:
    """Measure on a loop. What is measured may need to know where the store is."""

    async def on(url: str) -> T:
        bench = Bench(url)
        try:
            return await measure(bench, url)
        finally:
            await bench.close()

    with place.fresh() as url:
        return run(on(url))


class _Raw(Protocol):
    """What the bare databases offer: the functions of raw_postgres and raw_sqlite."""

    def enqueue_one_by_one(self, place: str, count: int, /) -> float: ...
    def enqueue_bulk(self, place: str, count: int, batch: int, /) -> float: ...
    def drain(self, place: str, count: int, /) -> float: ...


def _bare(place: Place, measure: Callable[[_Raw, str], float]) -> float:
    raw: _Raw = raw_sqlite if place.is_file else raw_postgres
    with place.fresh() as url:
        return measure(raw, url.removeprefix("sqlite:///"))
