"""`windlass worker`: runs jobs until told to stop."""

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import Place, place_options
from windlass.cli.signals import FAREWELL, Alarm, Signals, StoppedEarly

if TYPE_CHECKING:
    from windlass.app import Windlass


@click.command
@click.option("--queues", metavar="A,B", help="Serve only these queues; all unless given.")
@click.option("--concurrency", metavar="N", help="Async handlers at a time.")
@click.option("--threads", metavar="N", help="Sync handlers at a time.")
@click.option("--drain", is_flag=True, help="Stop when nothing is ready, running or retrying.")
@click.option("--watch", is_flag=True, help="Reload job files as they change.")
@click.option("--no-services", is_flag=True, help="Leave timers and recovery to other workers.")
@click.option(
    "--log", "log_kind", metavar="console|json", help="How logs are written, to standard error."
)
@click.option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
@place_options
def worker(
    place: Place,
    drain: bool,
    watch: bool,
    no_services: bool,
    log_kind: str | None,
    log_level: str | None,
    **seats: Any,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C stops it: nothing more is claimed, what runs gets the time that the setting
    `drain` allows, and what is then unfinished goes back to its queue. A second one ends it at
    once; its runs are taken over by others when their leases have run out.
    """
    alarm = Alarm()
    signals = Signals()
    try:
        from windlass.cli.serving import run

        app, changes = _prepare(place, log_kind, log_level, seats, watch=watch)
        options = {"drain": drain, "watch": watch, "services": not no_services}
        run(app, signals, alarm, **options, **changes)
    except StoppedEarly:
        alarm.set(FAREWELL, 0)


def _prepare(
    place: Place,
    log_kind: str | None,
    log_level: str | None,
    seats: dict[str, Any],
    *,
    watch: bool,
) -> "tuple[Windlass, dict[str, Any]]":
    from windlass import logs
    from windlass.config import Settings
    from windlass.errors import UsageError

    # Checked with the rules and the words for settings from anywhere else.
    told = Settings.load(log=log_kind, log_level=log_level, **seats)
    app = place.application()
    logs.configure(
        told.log if log_kind else app.settings.log,
        told.log_level if log_level else app.settings.log_level,
    )
    app.jobs.load()
    if not app.jobs and not watch:
        raise UsageError(
            "The application has no jobs: decorate functions with @app.job, and let the module "
            f"that --app names import the modules that define them; or write {app.settings.jobs}"
            "/NAME.py."
        )
    return app, {name: getattr(told, name) for name, value in seats.items() if value}
