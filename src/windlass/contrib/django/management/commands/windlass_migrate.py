"""`manage.py windlass_migrate`: brings the schema of the store up to date."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from windlass.app import Windlass
from windlass.cli.failures import exit_code
from windlass.contrib.django import get_app
from windlass.errors import SchemaMismatch, WindlassError


class Command(BaseCommand):
    """The command."""

    help = "Bring the schema of Windlass' store up to date. Safe to repeat."
    # Checks may need what this makes.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The options of `windlass migrate`."""
        parser.add_argument(
            "--check",
            action="store_true",
            help="change nothing; exit with 5 if it is not up to date",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate, or only look."""
        try:
            app = get_app()
            told = _check(app) if options["check"] else _migrate(app)
        except WindlassError as error:
            raise CommandError(str(error), returncode=exit_code(error)) from error
        self.stdout.write(f"{app.store.place}: {told}")


def _check(app: Windlass) -> str:
    found, needed = app.store.schema_version()
    if found != needed:
        raise SchemaMismatch(found or None, needed)
    if outdated := app.store.outdated():
        more = f" and {len(outdated) - 1} more" if len(outdated) > 1 else ""
        raise SchemaMismatch(found, needed, "functions", outdated[0] + more)
    return f"up to date ({needed})"


def _migrate(app: Windlass) -> str:
    before, after, mended = app.migrate()
    told = f"up to date ({after})" if before == after else f"schema {before} → {after}"
    return "\n".join([told, *(f"mended {name}" for name in mended)])
