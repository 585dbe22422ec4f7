"""`windlass worker`: runs jobs until told to stop."""

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, place_options
from windlass.cli.signals import Alarm, Signals
from windlass.errors import SchemaMismatch

if TYPE_CHECKING:
    from windlass.app import Windlass


@click.command
@click.option("--queues", metavar="A,B", help="Serve these queues only; default: all.")
@click.option("--concurrency", metavar="N", help="How many async handlers run at a time.")
@click.option("--threads", metavar="N", help="How many sync handlers run at a time.")
@click.option(
    "--process-seats", metavar="N", help="How many child processes run handlers at a time."
)
@click.option(
    "--processes",
    metavar="N",
    help="Keep so many worker processes running.",
)
@click.option("--recycle-runs", metavar="N", help="Replace a process after so many runs.")
@click.option("--recycle-memory", metavar="MB", help="Replace a process that uses more memory.")
@click.option("--drain", is_flag=True, help="Stop when nothing is ready, running or retrying.")
@click.option("--watch", is_flag=True, help="Reload job files as they change.")
@click.option(
    "--no-services", is_flag=True, help="Leave schedules, retries and recovery to other workers."
)
@click.option(
    "--log", "log_kind", metavar="console|json", help="The form of the log on standard error."
)
@click.option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
@click.option("--supervised", is_flag=True, hidden=True)
@place_options
def worker(
    place: StorePlace,
    drain: bool,
    watch: bool,
    no_services: bool,
    log_kind: str | None,
    log_level: str | None,
    supervised: bool,
    processes: str | None,
    **seats: Any,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C stops it: nothing more is claimed, what runs gets the time that the setting
    `drain` allows, and what is then unfinished goes back to its queue. A second one ends it at
    once; its runs are taken over by others when their leases have run out.

    With --processes, worker processes are started and, where one dies, started again; the
    signals are passed on to them.
    """
    alarm = Alarm()
    signals = Signals(insistent=not supervised)
    try:
        if not supervised and (count := _wanted(processes)) is not None:
            code = _supervise(count, log_kind, log_level, signals, drain=drain)
            click.get_current_context().exit(code)
        from windlass.cli.supervisor import RECYCLED, Lifeline

        lifeline = Lifeline() if supervised else None
        if lifeline is not None:
            lifeline.watch(signals.ask)
        from windlass.cli.serving import run

        app, changes = _prepare(place, log_kind, log_level, seats, watch=watch)
        changes["services"] = not no_services
        if run(app, signals, alarm, drain=drain, watch=watch, lifeline=lifeline, **changes):
            click.get_current_context().exit(RECYCLED)
    except SchemaMismatch as error:
        if not supervised:
            raise
        from windlass.cli.failures import print_error
        from windlass.cli.supervisor import OUTGROWN

        print_error(error)
        click.get_current_context().exit(OUTGROWN)


def _wanted(processes: str | None) -> int | None:
    """How many processes to supervise; None: this one does the work itself."""
    from windlass.config import Settings

    count = Settings.load(processes=processes).processes
    return count if processes is not None or count > 1 else None


def _supervise(
    count: int, log_kind: str | None, log_level: str | None, signals: Signals, *, drain: bool
) -> int:
    from windlass.cli.fitted import configure_log
    from windlass.cli.respawn import same_command
    from windlass.cli.supervisor import Supervisor
    from windlass.config import Settings
    from windlass.sources import Sources

    told = Settings.load(log=log_kind, log_level=log_level)
    configure_log(told.log, told.log_level)
    command = same_command("--supervised", without=("processes", "supervised"))
    supervisor = Supervisor(command, count, Sources.system(), finite=drain)
    signals.then(supervisor.stop, supervisor.kill)
    return supervisor.run()


def _prepare(
    place: StorePlace,
    log_kind: str | None,
    log_level: str | None,
    seats: dict[str, Any],
    *,
    watch: bool,
) -> "tuple[Windlass, dict[str, Any]]":
    from windlass.cli.fitted import configure_log
    from windlass.config import Settings
    from windlass.errors import UsageError

    # Checked with the rules and the words for settings from anywhere else.
    told = Settings.load(log=log_kind, log_level=log_level, **seats)
    app = place.application()
    configure_log(
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
