"""`python -m bench`: enqueue, drain, latency, claim cost, idle cost, memory, schedules.

Everything is measured beside the bare database writing the same rows, in the same run, several
times in turns; what is shown is the median.
"""

import argparse
import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from bench import claims, ours, raw_postgres, raw_sqlite, slots
from bench.ours import Bench, cpu_seconds, run
from bench.places import Place, places
from bench.report import Figure, Report, median, quantile

T = TypeVar("T")


def main() -> None:
    """Run what was asked for."""
    arguments = _arguments()
    logging.getLogger("windlass").setLevel(logging.WARNING)
    report = Report(as_json=arguments.json)
    with places(arguments.store, arguments.postgres) as found:
        for place in found:
            for name, measure in MEASURES.items():
                if not arguments.only or name in arguments.only:
                    measure(place, report, arguments)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--store", choices=("both", "sqlite", "postgres"), default="both")
    parser.add_argument(
        "--postgres",
        default="both",
        metavar="wheel|system|both|URL",
        help="the tests' server, the system's, both, or a running one, by its postgresql:// URL",
    )
    parser.add_argument("--only", nargs="*", choices=tuple(MEASURES), default=())
    parser.add_argument("--runs", type=int, default=60_000, help="runs to drain")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="the large backlog")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def measure_single(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    """One enqueue at a time, sync face; and many coroutines at once, async face."""
    count = 3000
    mine, bare = _in_turns(
        arguments.rounds,
        lambda: _sync(place.url(), lambda bench: bench.enqueue(count, 1)),
        lambda: _raw(place).enqueue_one_by_one(_bare(place.url()), count),
    )
    report.add(
        Figure(store=place.name, what="enqueue, one by one", value=mine, raw=bare, unit="/s")
    )
    rates = [
        run(_async(place.url(), lambda bench: bench.enqueue_concurrently(20_000, 50)))
        for _ in range(arguments.rounds)
    ]
    report.add(
        Figure(store=place.name, what="enqueue, 50 coroutines", value=median(rates), unit="/s")
    )


def measure_bulk(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    """A thousand runs at a time."""
    count = 50_000
    mine, bare = _in_turns(
        arguments.rounds,
        lambda: _sync(place.url(), lambda bench: bench.enqueue(count, 1000)),
        lambda: _raw(place).enqueue_bulk(_bare(place.url()), count, 1000),
    )
    report.add(
        Figure(store=place.name, what="enqueue, by thousands", value=mine, raw=bare, unit="/s")
    )


def measure_drain(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    """One worker process, no-op handlers, everything recorded."""
    used: list[float] = []

    async def drain(bench: Bench) -> float:
        rate, cpu = await bench.drain(arguments.runs)
        used.append(cpu)
        return rate

    mine, bare = _in_turns(
        arguments.rounds,
        lambda: run(_async(place.url(), drain)),
        lambda: _raw(place).drain(_bare(place.url()), arguments.runs),
    )
    note = f"{median(used):.0f} us of this process's CPU each"
    report.add(
        Figure(
            store=place.name, what="drain, one worker", value=mine, raw=bare, unit="/s", note=note
        )
    )


def measure_latency(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    """From before the enqueue to the handler's start, worker idle."""
    here = run(_async(place.url(), lambda bench: bench.latency(200, 0.02)))[20:]
    there = _across(place.url(), 200)[20:]
    for what, found in (("same process", here), ("two processes", there)):
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            report.add(
                Figure(
                    store=place.name,
                    what=f"latency, {what}, {name}",
                    value=quantile(found, share) * 1000,
                    unit="ms",
                )
            )


def measure_claims(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    """What a claim costs with a small and with a large backlog."""
    small, large = (
        claims.claim_times(place.url(), backlog, (1, 100), 40)
        for backlog in (10_000, arguments.backlog)
    )
    for size in (1, 100):
        low, high = median(small[size]) * 1000, median(large[size]) * 1000
        report.add(
            Figure(
                store=place.name,
                what=f"claim of {size}, backlog {arguments.backlog:,}",
                value=high,
                unit="ms",
                note=f"{high / low:.2f}x of {low:.3g} ms at 10,000",
            )
        )


def measure_idle(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    """A worker with nothing to do: calls of the store and CPU."""

    async def idle(bench: Bench) -> tuple[float, float]:
        counted = claims.Counted(bench.app.store)
        worker = claims.worker_on(counted, bench.app)
        task = asyncio.create_task(worker.run())
        await asyncio.sleep(3)
        calls, used = counted.calls, cpu_seconds()
        await asyncio.sleep(10)
        calls, used = counted.calls - calls, cpu_seconds() - used
        await bench.stop(worker, task)
        return calls / 10, used / 10 * 100

    calls, used = run(_async(place.url(), idle))
    report.add(
        Figure(store=place.name, what="idle worker, calls of the store", value=calls, unit="/s")
    )
    _add(report, place, "idle worker, of one core", value=used, unit="%")


def measure_memory(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    """Memory of a worker's process after many runs (the process of this benchmark itself)."""
    code = (
        "import sys; from bench import claims; from bench.ours import run; "
        "run(claims.memory(sys.argv[1], int(sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, place.url(), str(arguments.backlog)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, last = map(float, done.stdout.split())
    report.add(
        Figure(
            store=place.name,
            what=f"memory of a worker after {arguments.backlog:,} runs",
            value=last,
            unit="MB",
            note=f"{first:.0f} MB after the first 50,000",
        )
    )


def measure_schedules(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    """10,000 schedules: 1,000 that come in the same second, and none that comes."""
    late = run(_async(place.url(), lambda bench: slots.lateness(bench, 10_000, 1_000)))
    what = "1,000 slots at once, the last run made after"
    note = f"median {median(late):.2f} s; 10,000 schedules"
    _add(report, place, what, value=max(late), unit="s", note=note)
    calls, used = run(_async(place.url(), lambda bench: slots.idle(bench, 10_000, 20)))
    note = f"{used:.2f} % of a core; 10,000 schedules, no slot near"
    _add(report, place, "idle scheduler, calls of the store", value=calls, unit="/s", note=note)


MEASURES: dict[str, Callable[[Place, Report, argparse.Namespace], None]] = {
    "single": measure_single,
    "bulk": measure_bulk,
    "drain": measure_drain,
    "latency": measure_latency,
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


def _sync(url: str, measure: Callable[[Bench], float]) -> float:
    bench = Bench(url)
    try:
        return measure(bench)
    finally:
        bench.app.close()


async def _async(url: str, measure: Callable[[Bench], Awaitable[T]]) -> T:
    bench = Bench(url)
    try:
        return await measure(bench)
    finally:
        await bench.close()


class _Raw(Protocol):
    """What the bare databases offer: the functions of raw_postgres and raw_sqlite."""

    def enqueue_one_by_one(self, place: str, count: int, /) -> float: ...
    def enqueue_bulk(self, place: str, count: int, batch: int, /) -> float: ...
    def drain(self, place: str, count: int, /) -> float: ...


def _raw(place: Place) -> _Raw:
    return raw_sqlite if place.name == "sqlite" else raw_postgres


def _bare(url: str) -> str:
    return url.removeprefix("sqlite:///")


def _across(url: str, count: int) -> list[float]:
    """Latency with the worker in another process."""
    bench = Bench(url)
    found = []
    with subprocess.Popen(
        [sys.executable, "-m", "bench.across", url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as worker:  # fmt: skip
        assert worker.stdout is not None
        assert worker.stdin is not None
        bench.noop.enqueue(**ours.INPUT)
        worker.stdout.readline()
        for _ in range(count):
            time.sleep(0.03)
            began = time.clock_gettime(time.CLOCK_MONOTONIC)
            bench.noop.enqueue(**ours.INPUT)
            found.append(float(worker.stdout.readline()) - began)
        worker.stdin.close()
        worker.wait()
    bench.app.close()
    return found


if __name__ == "__main__":
    main()
