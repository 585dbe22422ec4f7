"""`windlass dev`: everything in one process, for the hours of writing jobs."""

import click

from windlass.cli.options import StorePlace, place_options
from windlass.cli.signals import Alarm, Signals


@click.command
@click.option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
@place_options
def dev(place: StorePlace, log_level: str | None) -> None:
    """Run jobs while you write them: worker, services and hot reload in one process.

    Files in the folder of job files take effect as they are saved. One that is broken is shown
    with its line, and its last good version goes on. Ctrl-C stops it.
    """
    alarm = Alarm()
    signals = Signals()
    from windlass.cli.console import Console
    from windlass.cli.serving import run
    from windlass.config import Settings

    app = place.application(alone=True)
    app.jobs.load()  # what is wrong is shown with the jobs
    Console(app, Settings.load(log_level=log_level).log_level).greet()
    run(app, signals, alarm, drain=False, watch=True)
