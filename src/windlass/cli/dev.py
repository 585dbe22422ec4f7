"""`windlass dev`: a worker that follows your edits, for the hours of writing jobs."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli.options import StorePlace, place_options
from windlass.cli.signals import Alarm, Signals
from windlass.errors import WindlassError

if TYPE_CHECKING:
    from windlass.cli.link import Link


@click.command
@click.option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
@click.option("--no-reload", is_flag=True, help="Do not restart when the application changes.")
@click.option("--link", "fd", type=int, hidden=True)
@click.option("--successor", is_flag=True, hidden=True)
@place_options
def dev(
    place: StorePlace, log_level: str | None, no_reload: bool, fd: int | None, successor: bool
) -> None:
    """Run jobs while you write them: a worker with all services, and hot reload.

    Save a job file, or any module that your application imports: the new code takes over within a
    second or two, and running jobs finish on the code they began with. If the new code is broken,
    its error is shown with file and line, and the old code goes on. Ctrl-C stops it.
    """
    if fd is None and not no_reload and sys.platform != "win32":  # whose pipes are not inherited
        click.get_current_context().exit(_keep())
    alarm = Alarm()
    signals = Signals(insistent=fd is None)
    if fd is None:
        _serve(place, log_level, signals, alarm, None)
        return
    from windlass.cli.link import Link

    link = Link(fd, first=not successor)
    link.watch(signals.ask)
    try:
        _serve(place, log_level, signals, alarm, link)
    except WindlassError as error:
        from windlass.cli.failures import exit_code

        if link.first or link.started:
            raise
        link.tell_failure(error, _told(error))
        click.get_current_context().exit(exit_code(error))


def _keep() -> int:
    """Keep a worker process on the latest code that works."""
    signals = Signals()
    from windlass.cli.console import show_change
    from windlass.cli.generations import Generations
    from windlass.cli.respawn import same_command

    def command(fd: int, first: bool) -> Sequence[str]:
        more = () if first else ("--successor",)
        return same_command("--link", str(fd), *more, without=("fd", "successor"))

    generations = Generations(command, show_change)
    signals.then(generations.stop, generations.kill)
    return generations.run()


def _serve(
    place: StorePlace, log_level: str | None, signals: Signals, alarm: Alarm, link: "Link | None"
) -> None:
    from windlass.cli.console import Console
    from windlass.cli.serving import run
    from windlass.config import Settings

    app = place.application(alone=True)
    app.jobs.load()  # what is wrong is shown with the jobs
    console = Console(app, Settings.load(log_level=log_level).log_level, link)
    if link is None or link.first:
        console.greet()
    run(app, signals, alarm, drain=False, watch=True, lifeline=link)


def _told(error: WindlassError) -> str:
    """What is wrong with the code, with its place first: the end of a line may be cut."""
    from pathlib import Path

    from windlass.cli.failures import sentence
    from windlass.cli.jobs import shown
    from windlass.modules import BrokenCode

    if isinstance(error, BrokenCode):
        return f"{shown(Path(error.file))}:{error.line}: {error.why}"
    return sentence(error)
