"""Options that several commands share, and the kinds of values they take."""

import functools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from windlass.app import Windlass

R = TypeVar("R")

_KEYWORD = re.compile(r"\b([a-z_]+)=(?![\w'\"(\[{])")  # as in "give timezone=", without a value

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
        database cannot be reached. Otherwise a file that the command makes is announced.
        """
        from windlass.cli import loading

        app = loading.store(self.app, self.url, existing=existing)
        if (new := loading.absent_file(app)) is not None:
            click.get_current_context().call_on_close(lambda: _announce(new))
        return _closing(app)


def whole_id(app: "Windlass", given: str) -> str:
    """The id of the run that a person means: all of it, or the beginning if that is unique."""
    from windlass.client.filters import check_id
    from windlass.errors import BadOption, RunNotFound

    try:
        return check_id(given)
    except RunNotFound:
        try:
            return app.full_id(given)
        except BadOption as error:
            raise click.UsageError(f"Run {error.why}.") from None


def _closing(app: "Windlass") -> "Windlass":
    """Close its connections when the command ends."""
    click.get_current_context().call_on_close(app.close)
    return app


def _announce(new: "Path") -> None:
    """Say that a store was made: whoever expected to find one has named the wrong place."""
    if new.exists():
        click.echo(f"windlass: This made a new store: {new}.", err=True)


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
        with options_named():
            return command(place, *args, **kwargs)

    return with_place


def acting_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add --as: who acts, for the audit log."""

    @click.option(
        "--as", "actor", metavar="NAME", envvar="WINDLASS_ACTOR", show_envvar=True,
        help="Who does this, for the audit log; otherwise the user of the OS.",
    )  # fmt: skip
    @functools.wraps(command)
    def with_actor(*args: Any, actor: str | None, **kwargs: Any) -> R:
        from windlass.acting import acting_as

        with acting_as(actor) if actor is not None else nullcontext():
            return command(*args, **kwargs)

    return with_actor


@contextmanager
def options_named() -> Iterator[None]:
    """Say what is wrong in words of the command line: by the options that can be typed, not by the
    arguments of the library that they become."""
    from windlass.errors import BadOption

    try:
        yield
    except BadOption as error:
        if error.source != "argument":
            raise
        why = _KEYWORD.sub(_as_option, error.why)
        option = _typed(error.option)
        if option is None:  # it is about several, which it names
            raise click.UsageError(f"{why[:1].upper()}{why[1:]}.") from error
        raise click.BadParameter(why, param=option) from error


def _as_option(keyword: re.Match[str]) -> str:
    option = _typed(keyword[1])
    return keyword[0] if option is None else option.opts[0]


def _typed(argument: str) -> click.Parameter | None:
    """The option of this command that gives an argument of the library its value."""
    for option in click.get_current_context().command.params:
        spelled = {name.lstrip("-").replace("-", "_") for name in option.opts}
        if isinstance(option, click.Option) and argument in {option.name, *spelled}:
            return option
    return None


def duration(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Read a length of time, in seconds."""
    from windlass.duration import parse_duration
    from windlass.errors import BadDuration

    try:
        return None if value is None else parse_duration(value)
    except BadDuration as error:
        wanted = "write it as 250ms, 30s, 2h30m or 7d"
        raise click.BadParameter(
            f"{error.given} is not a duration: {error.why}; {wanted}"
        ) from None


def json_object(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, Any] | None:
    """Read a JSON object."""
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.BadParameter(f'{value!r} is not an object such as \'{{"who": "Ada"}}\'')
    return found


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


def schedule_moment(option: str, text: str, zone: "ZoneInfo | None") -> datetime:
    """Read an instant that concerns a schedule: in its zone, or in local time if it has none."""
    from windlass.domain.scheduling.rules import parse_moment

    if zone is not None:
        return parse_moment(option, text, zone)
    found = _instant(text)
    return parse_moment(option, text if found is None else found)


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
