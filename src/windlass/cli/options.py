"""Options that several commands share, and the kinds of values they take."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from windlass.app import Windlass

R = TypeVar("R")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """What the command line says of the application and the store."""

    app: str | None = None
    url: str | None = None

    def application(self, *, alone: bool = False) -> "Windlass":
        """The application with its jobs; where none is named, one for job files alone.

        Raises UsageError where there is no folder of those either, unless it may come (`alone`).
        """
        from windlass.cli import loading

        return _closing(loading.application(self.app, self.url, alone=alone))

    def store(self, *, existing: bool = True) -> "Windlass":
        """An application to reach the store by; its jobs may be missing.

        `existing`: refuse to make a new SQLite file, and tell at once, without patience, if the
        database cannot be reached.
        """
        from windlass.cli import loading

        return _closing(loading.store(self.app, self.url, existing=existing))


def _closing(app: "Windlass") -> "Windlass":
    """Close its connections when the command ends."""
    click.get_current_context().call_on_close(app.close)
    return app


def place_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add --app and --url; the command gets a StorePlace as its first argument."""

    @click.option(
        "--url",
        metavar="URL",
        help="The store: sqlite:///file.db or postgresql://…; counts more than the application's "
        "own.  [env: WINDLASS_URL, where the application names none]",
    )
    @click.option(
        "--app",
        "app_name",
        metavar="MODULE:NAME",
        help="The application; NAME is `app` unless given.  [env: WINDLASS_APP]",
    )
    @functools.wraps(command)
    def with_place(*args: Any, app_name: str | None, url: str | None, **kwargs: Any) -> R:
        before = click.get_current_context().find_object(dict) or {}
        place = StorePlace(app=app_name or before.get("app"), url=url or before.get("url"))
        return command(place, *args, **kwargs)

    return with_place


def duration(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Read a length of time, in seconds."""
    from windlass.duration import parse_duration
    from windlass.errors import BadDuration

    try:
        return None if value is None else parse_duration(value)
    except BadDuration as error:
        raise click.BadParameter(str(error)) from None


def moment(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """Read an instant: ISO 8601, in local time unless it names a zone."""
    if value is None:
        return None
    found = _instant(value)
    if found is None:
        wanted = "2030-01-31T12:00 (local time) or 2030-01-31T12:00Z"
        raise click.BadParameter(f"{value!r} is not a time such as {wanted}")
    return found


def moment_or_duration(
    _: click.Context, __: click.Parameter, value: str | None
) -> datetime | float | None:
    """Read a length of time in seconds, or an instant; 20300131 is the former."""
    from windlass.duration import parse_duration
    from windlass.errors import BadDuration

    if value is None:
        return None
    try:
        return parse_duration(value)
    except BadDuration as error:
        found = _instant(value)
        if found is None:
            wanted = "a duration such as 90s or 1h30m, nor a time such as 2030-01-31T12:00"
            raise click.BadParameter(f"{value!r} is neither {wanted}") from error
        return found


def before_now(given: datetime | float | None) -> datetime | None:
    """Return the instant that was given, or that lies so many seconds back."""
    from windlass.sources import SystemClock

    if given is None or isinstance(given, datetime):
        return given
    return SystemClock().now() - timedelta(seconds=given)


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None
