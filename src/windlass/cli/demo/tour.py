"""The tour: worker processes, the acts one after the other, the burst, and the sum of it."""

import asyncio
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import click

from windlass.app import Windlass
from windlass.cli.demo.acts import DemoAct, acts
from windlass.cli.demo.crew import Crew
from windlass.cli.demo.jobs import BURST, QUEUE, RISKY, make_app
from windlass.cli.demo.screen import Burst, Scene, Screen, Watering, open_screen
from windlass.cli.demo.summary import all_good, summary
from windlass.cli.serving import loop_factory
from windlass.client import Run
from windlass.domain.states import Status
from windlass.errors import ScheduleNotFound

SIZE = 10_000
LIMIT = 55.0
"""Seconds after which the tour gives up: it takes about fifteen, and more on a busy machine."""

_FRAME = 0.08
_APART = 0.1
_WATERINGS = 3
_SCHEDULE = "windlass-demo"


def run_tour(url: str | None, *, keep: bool) -> bool:
    """Show the tour; returns whether everything ended as it should."""
    with _folder(keep=keep and url is None) as folder:
        place = url or f"sqlite:///{quote(str(folder / 'demo.db'))}"
        app = make_app(place)
        app.migrate()
        tour = Tour(app, Crew(place, folder))
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            try:
                runner.run(tour.play())
            except asyncio.CancelledError:
                raise click.Abort from None  # somebody asked us to end
        good = tour.sum_up()
        if keep:
            _advertise(place, tour)
    return good


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """A temporary folder; kept only if all went well."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-demo-"))
    try:
        yield folder
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


class Tour:
    """One performance."""

    def __init__(self, app: Windlass, crew: Crew) -> None:
        self.acts = acts()
        self.watering = Watering(_WATERINGS)
        self.burst: Burst | None = None
        self._app = app
        self._crew = crew
        self._screen: Screen = open_screen(len(self.acts))

    async def play(self) -> None:
        """Play all of it."""
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        playing = asyncio.current_task()
        assert playing is not None
        if sys.platform != "win32":
            # As Ctrl-C does: so that a terminal that is closed leaves nothing behind either.
            for number in (signal.SIGTERM, signal.SIGHUP):
                self._loop.add_signal_handler(number, playing.cancel)
        self._screen.begin(self._app.store.place)
        try:
            async with asyncio.timeout(LIMIT):
                await self._hire()
                await self._play_acts()
                await self._play_burst()
        except TimeoutError:
            pass  # the sum tells what is missing
        finally:
            self._screen.end()
            await self._clean_up()

    def sum_up(self) -> bool:
        """Tell what came of it; returns whether everything is as it should be."""
        for line in summary(self.acts, self.watering, self.burst):
            click.echo(line)
        return all_good(self.acts, self.watering, self.burst)

    async def _hire(self) -> None:
        await self._app.schedules.aput("demo.water_plants", key=_SCHEDULE, interval="1s")
        await self._crew.hire("app", QUEUE, BURST)
        for _ in range(2):
            await self._crew.hire("risky", RISKY, BURST)

    async def _clean_up(self) -> None:
        await self._crew.dismiss()
        with suppress(ScheduleNotFound):
            await self._app.schedules.adelete(_SCHEDULE)
        await self._app.aclose()

    async def _play_acts(self) -> None:
        waiting = list(self.acts)
        next_start = 0.0
        while waiting or not all(act.finished for act in self.acts) or not self.watering.over:
            act = self._next(waiting)
            if act is not None and self._loop.time() >= next_start:
                waiting.remove(act)
                act.runs = await act.start(self._app)
                next_start = self._loop.time() + _APART
            await self._go_on()
            await asyncio.sleep(_FRAME)
        await self._go_on()

    def _next(self, waiting: Sequence[DemoAct]) -> DemoAct | None:
        over = {act.title for act in self.acts if act.finished}
        return next((act for act in waiting if not act.after or act.after in over), None)

    async def _play_burst(self) -> None:
        job = self._app.jobs["demo.tick"]
        requests = [job.request(n=n) for n in range(SIZE)]
        self.burst = Burst(SIZE)
        self._show()
        runs = await self._app.aenqueue_many(requests)
        began = self._loop.time()
        backlog = self._app.store.operations.backlog((BURST,), None)
        while True:
            left = await self._app.store.arun(backlog)
            undone = left.ready + left.running
            took = self._loop.time() - began
            if not undone:
                break
            self.burst = Burst(SIZE, SIZE - undone, took)
            self._show()
            await asyncio.sleep(_FRAME)
        done = sum(run.status is Status.SUCCEEDED for run in await self._read(runs))
        self.burst = Burst(SIZE, done, took, over=True)
        self._show()

    async def _go_on(self) -> None:
        """Read all runs at once, step in where an operator would, and show what there is."""
        now = self._app.sources.now()
        for act in self.acts:
            if act.runs and not act.finished:
                act.runs = await self._read(act.runs)
            if act.wants_cancel(now) and act.run is not None:
                await act.run.acancel("somebody changed their mind")
            victim = act.wants_kill(now)
            if victim is not None:
                self._crew.kill(victim)
        await self._crew.replace_dead()
        made = await self._app.alist(job="demo.water_plants", limit=_WATERINGS * 20)
        done = sum(run.status is Status.SUCCEEDED for run in made)
        self.watering = Watering(_WATERINGS, done)
        self._show()

    async def _read(self, runs: Sequence[Run]) -> list[Run]:
        ids = [run.id for run in runs]
        call = self._app.store.operations.get_runs(self._app.settings.tenant, ids)
        found = {record.id: record for record in await self._app.store.arun(call)}
        return [Run(self._app.scope, found[run.id]) for run in runs]

    def _show(self) -> None:
        scene = Scene(
            self.acts,
            self.watering,
            self.burst,
            self._crew.pids,
            self._loop.time() - self._began,
            self._app.sources.now(),
        )
        self._screen.show(scene)


def _advertise(url: str, tour: Tour) -> None:
    failed = next((a.run for a in tour.acts if a.run and a.run.status is Status.FAILED), None)
    place = shlex.quote(url)
    click.echo(f"\nThe runs are in {url}. Have a look:\n")
    click.echo(f"  windlass runs --url {place}")
    if failed is not None:
        click.echo(f"  windlass show {failed.id} --url {place}")
    click.echo(f"  windlass dead --url {place}")
    click.echo(f"  windlass doctor --url {place}")
