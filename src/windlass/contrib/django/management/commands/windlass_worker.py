"""`manage.py windlass_worker`: runs the project's jobs until told to stop."""

import asyncio
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from windlass.app import Windlass
from windlass.cli.serving import run
from windlass.cli.signals import Alarm, Signals
from windlass.contrib.django import get_app
from windlass.contrib.django.logging import show_logs
from windlass.errors import UsageError, WindlassError


class Command(BaseCommand):
    """The command."""

    help = "Run jobs until told to stop, by SIGTERM or Ctrl-C."
    # Checks may ask the database; a worker starts, and waits for it.
    requires_system_checks = ()
    _own_process = False

    def add_arguments(self, parser: CommandParser) -> None:
        """The options of `windlass worker` that matter here."""
        parser.add_argument("--queues", metavar="A,B", help="serve only these queues")
        parser.add_argument("--concurrency", metavar="N", help="async handlers at a time")
        parser.add_argument("--threads", metavar="N", help="sync handlers at a time")
        parser.add_argument("--drain", action="store_true", help="stop when nothing is left to do")
        parser.add_argument("--log", metavar="console|json", help="how logs are written")
        parser.add_argument("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR")
        parser.add_argument("--no-services", action="store_true", help="leave timers to others")

    def run_from_argv(self, argv: list[str]) -> None:
        """Begin on the command line: the process is ours, signals and end included."""
        self._own_process = True
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        """Work."""
        names = ("queues", "concurrency", "threads")
        changes = {name: options[name] for name in names if options[name]}
        changes["services"] = not options["no_services"]
        try:
            app = get_app()
            if not app.jobs and app.jobs.finder is None:
                raise UsageError("There are no jobs: write jobs.py in an app of INSTALLED_APPS.")
            if self._own_process:
                show_logs(app.settings, options["log"], options["log_level"])
                _serve(app, drain=options["drain"], **changes)
            elif options["drain"]:
                asyncio.run(_drain(app, **changes))
            else:
                raise UsageError("Inside another program it can only --drain.")
        except WindlassError as error:
            raise CommandError(str(error)) from error


def _serve(app: Windlass, *, drain: bool, **changes: Any) -> None:
    alarm = Alarm()
    signals = Signals()
    run(app, signals, alarm, drain=drain, watch=False, **changes)


async def _drain(app: Windlass, **changes: Any) -> None:
    async with app.running(**changes) as worker:
        await worker.drained()
