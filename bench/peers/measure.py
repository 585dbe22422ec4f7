"""What is measured of one entry in one round, each on a store of its own."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.catalogue import Unavailable
from bench.peers.environments import Environment
from bench.peers.processes import Process, ask, running
from bench.peers.programs.kit import WARM_UP, Stamps
from bench.peers.results import Figures
from bench.peers.stores import Place
from bench.report import quantile

SETTLE_SECONDS = 1.0
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured in a round."""

    runs: int
    singles: int
    latencies: int
    limit: float  # seconds for one program, or for all runs to start


class Course:
    """One entry's way through a round. Everything here raises Unavailable if the entry fails."""

    def __init__(self, environment: Environment, place: Place, sizes: Sizes) -> None:
        self._environment = environment
        self._place = place
        self._sizes = sizes

    def run(self, *, bulk: bool) -> Figures:
        """Measure everything; `bulk`: whether the peer has a call for many runs."""
        enqueued, drained = self.drain()
        latencies = self.latencies()
        return Figures(
            drain=drained,
            bulk=enqueued if bulk else None,
            single=self.single(),
            p50=quantile(latencies, 0.5),
            p99=quantile(latencies, 0.99),
        )

    def drain(self) -> tuple[float, float]:
        """Enqueue all runs and let one worker drain them: both rates."""
        count = self._sizes.runs
        with self._store() as (url, folder):
            stamps = Stamps.create(folder / "stamps", count)
            enqueued = self._ask(folder, "enqueued", do="bulk", url=url, count=count)
            with self._worker(folder, url) as worker:
                self._wait(stamps, worker)
                time.sleep(SETTLE_SECONDS)  # for what is recorded late, and for a second start
            self._check(stamps, self._ask(folder, "left", do="left", url=url))
            times = stamps.times()
            return float(enqueued["rate"]), (count - 1) / (max(times) - min(times)) * 1e9

    def single(self) -> float:
        """Enqueue one by one, nobody works."""
        with self._store() as (url, folder):
            count = self._sizes.singles + WARM_UP
            return float(self._ask(folder, "enqueued", do="single", url=url, count=count)["rate"])

    def latencies(self) -> list[float]:
        """Milliseconds from before each enqueue to its handler's start; the worker is idle."""
        count = self._sizes.latencies + WARM_UP
        with self._store() as (url, folder):
            stamps = Stamps.create(folder / "stamps", count)
            with self._worker(folder, url) as worker:
                worker.answer("ready", self._sizes.limit)
                time.sleep(SETTLE_SECONDS)
                sent = self._ask(folder, "sent", do="latency", url=url, count=count)["at"]
                time.sleep(SETTLE_SECONDS)
            missing = stamps.counts().count(0)
            if missing:
                raise Unavailable(f"latency: {missing} of {count} runs did not start")
            took = [start - at for start, at in zip(stamps.times(), sent, strict=True)]
            return [each / 1e6 for each in took[WARM_UP:]]

    @contextmanager
    def _store(self) -> Iterator[tuple[str, Path]]:
        with self._place.fresh() as url, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self._ask(folder, "prepared", do="prepare", url=url)
            yield url, folder

    def _ask(self, folder: Path, race: str, **task: object) -> dict[str, Any]:
        return ask(self._environment, folder, race, self._sizes.limit, **task)

    @contextmanager
    def _worker(self, folder: Path, url: str) -> Iterator[Process]:
        task = {"do": "work", "url": url, "stamps": str(folder / "stamps")}
        with running(self._environment, folder, **task) as worker:
            yield worker

    def _wait(self, stamps: Stamps, worker: Process) -> None:
        """Until every run has started."""
        deadline = time.monotonic() + self._sizes.limit
        while missing := stamps.counts().count(0):
            worker.check()
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"drain: {missing} of {self._sizes.runs} runs had not started "
                    f"after {self._sizes.limit:.0f} s"
                )
            time.sleep(LOOK_SECONDS)

    def _check(self, stamps: Stamps, left: dict[str, Any]) -> None:
        """Each run started once, and its end is recorded."""
        counts = stamps.counts()
        if wrong := len(counts) - counts.count(1):
            raise Unavailable(f"drain: {wrong} of {len(counts)} runs did not start exactly once")
        if left["count"]:
            raise Unavailable(f"drain: the ends of {left['count']} runs were not recorded")
