"""The tour: a worker, the acts one after the other, the burst, and the sum of it."""

import asyncio
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import click

from windlass.app import Windlass
from windlass.cli.demo.acts import Act, acts
from windlass.cli.demo.jobs import BURST, QUEUE, make_app
from windlass.cli.demo.screen import Burst, Screen, glyphs, open_screen, rate
from windlass.cli.output import paint, status_text, table
from windlass.cli.serving import loop_factory
from windlass.client import Run
from windlass.domain.states import Status

SIZE = 1_000
LIMIT = 40.0
"""Seconds after which the tour gives up: it takes about six, and more on a busy machine."""

_FRAME = 0.08
_APART = 0.1


def run_tour(url: str | None, *, keep: bool) -> bool:
    """Show the tour; returns whether everything ended as it should."""
    with _place(url, keep=keep) as place:
        app = make_app(place)
        app.migrate()
        tour = Tour(app)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(tour.play())
        good = tour.sum_up()
        if keep:
            _advertise(place, tour)
    return good


@contextmanager
def _place(url: str | None, *, keep: bool) -> Iterator[str]:
    if url is not None:
        yield url
        return
    folder = Path(tempfile.mkdtemp(prefix="windlass-demo-"))
    try:
        yield f"sqlite:///{quote(str(folder / 'demo.db'))}"
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


class Tour:
    """One performance."""

    def __init__(self, app: Windlass) -> None:
        self.acts = acts()
        self.burst: Burst | None = None
        self._app = app
        self._screen: Screen = open_screen(len(self.acts) + 12)

    async def play(self) -> None:
        """Play all of it."""
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        worker = self._app.worker(queues=(QUEUE, BURST))
        working = asyncio.create_task(worker.run())
        self._screen.begin(self._app.store.place)
        try:
            async with asyncio.timeout(LIMIT):
                await self._play_acts(working)
                await self._play_burst()
        except TimeoutError:
            pass  # the sum tells what is missing
        finally:
            self._screen.end()
            worker.stop()
            await working
            await self._app.aclose()

    def sum_up(self) -> bool:
        """Tell what came of it; returns whether everything is as it should be."""
        for line in _summary(self.acts, self.burst):
            click.echo(line)
        return _all_good(self.acts, self.burst)

    async def _play_acts(self, working: asyncio.Task[None]) -> None:
        waiting = list(self.acts)
        next_start = 0.0
        while waiting or not all(act.finished for act in self.acts):
            if working.done():
                return  # with an error, which is raised where it is awaited
            if waiting and self._loop.time() >= next_start:
                act = waiting.pop(0)
                act.runs = await act.start(self._app)
                next_start = self._loop.time() + _APART
            await self._look()
            await asyncio.sleep(_FRAME)
        await self._look()

    async def _play_burst(self) -> None:
        job = self._app.jobs["demo.tick"]
        requests = [job.request(n=n) for n in range(SIZE)]
        began = self._loop.time()
        self.burst = Burst(SIZE)
        runs = await self._app.aenqueue_many(requests)
        backlog = self._app.store.operations.backlog((BURST,), None)
        while True:
            left = await self._app.store.arun(backlog)
            undone = left.ready + left.running
            took = self._loop.time() - began
            if not undone:
                break
            self.burst = Burst(SIZE, SIZE - undone, took)
            self._show()
            await asyncio.sleep(_FRAME / 4)
        done = sum(run.status is Status.SUCCEEDED for run in await self._read(runs))
        self.burst = Burst(SIZE, done, took, over=True)
        self._show()

    async def _look(self) -> None:
        """Read all runs at once, step in where an operator would, and show what there is."""
        for act in self.acts:
            if act.runs and not act.finished:
                act.runs = await self._read(act.runs)
            if act.wants_cancel(self._app.sources.now()) and act.run is not None:
                await act.run.acancel("somebody changed their mind")
        self._show()

    async def _read(self, runs: Sequence[Run]) -> list[Run]:
        ids = [run.id for run in runs]
        call = self._app.store.operations.get_runs(self._app.settings.tenant, ids)
        found = {record.id: record for record in await self._app.store.arun(call)}
        return [Run(self._app.client, found[run.id]) for run in runs]

    def _show(self) -> None:
        elapsed = self._loop.time() - self._began
        self._screen.show(self.acts, self.burst, elapsed, self._app.sources.now())


def _all_good(played: Sequence[Act], burst: Burst | None) -> bool:
    whole = burst is not None and burst.over and burst.done == burst.total
    return whole and all(act.as_expected for act in played)


def _summary(played: Sequence[Act], burst: Burst | None) -> Iterator[str]:
    ended: Counter[str] = Counter()
    good: Counter[str] = Counter()
    for act in played:
        runs = {run.id: run for run in act.runs}.values()
        ended.update(run.status.value for run in runs)
        good.update(run.status.value for run in runs if act.as_expected)
    if burst is not None:
        ended[Status.SUCCEEDED] += burst.done
        good[Status.SUCCEEDED] += burst.done
    rows = [(status_text(name), f"{ended[name]:,}", f"{good[name]:,}", "") for name in ended]
    yield ""
    yield from table(("OUTCOME", ">RUNS", ">AS EXPECTED", ""), rows, indent="    ")
    yield ""
    if burst is not None and burst.seconds:
        speed = f"{rate(burst):,} runs a second"
        yield f"    burst: {burst.done:,} runs in {burst.seconds:.2f} s, {speed}"
    signs = glyphs()
    if _all_good(played, burst):
        yield paint(f"  {signs.good} every outcome as expected", "green", bold=True)
        return
    wrong = [act.title for act in played if not act.as_expected] or ["the burst"]
    yield paint(f"  {signs.bad} not as expected: {', '.join(wrong)}", "red", bold=True)


def _advertise(url: str, tour: Tour) -> None:
    failed = next((a.run for a in tour.acts if a.run and a.run.status is Status.FAILED), None)
    place = shlex.quote(url)
    click.echo(f"\nThe runs are in {url}. Have a look:\n")
    click.echo(f"  windlass runs --url {place}")
    if failed is not None:
        click.echo(f"  windlass show {failed.id} --url {place}")
    click.echo(f"  windlass dead --url {place}")
