"""`windlass tail`: what happens, a line for each event, as it happens."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, json_option, options_named, place_options, whole_id

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.domain.envelope import Event

_TYPE = 19  # columns: the longest names that come often
_SHORT = 13  # characters of an id
_COLORS = {
    "enqueued": "cyan", "queued": "cyan", "started": "yellow", "succeeded": "green",
    "completed": "green", "failed": "red", "crashed": "red", "timed_out": "red",
    "retrying": "yellow", "canceled": "magenta", "paused": "bright_yellow",
    "sleeping": "blue", "waiting": "bright_blue", "snoozed": "blue",
}  # fmt: skip


@click.command
@click.option("--run", "run_id", metavar="RUN", help="Only events about this run.")
@click.option("--job", metavar="NAME", help="Only events about runs of this job.")
@click.option(
    "--types", metavar="NAMES", multiple=True,
    help="Only these, such as run.failed,run.retrying or 'run.*'. Repeatable.",
)  # fmt: skip
@click.option(
    "--since", metavar="WHEN", default="now", show_default=True,
    help="Where to begin: start, now, a time, how long ago (10m), or the id of an event.",
)  # fmt: skip
@click.option("--no-follow", is_flag=True, help="End with what there is.")
@json_option
@place_options
def tail(
    place: StorePlace,
    run_id: str | None,
    job: str | None,
    types: Sequence[str],
    since: str,
    no_follow: bool,
    as_json: bool,
) -> None:
    """Show what happens, a line for each event, until Ctrl-C.

    \b
    windlass tail
    windlass tail --types run.failed,run.retrying --since 1h
    windlass tail --run 0197c0de-... --since start --no-follow
    windlass tail --json | jq .type

    With --json each line is a CloudEvent; its id is for --since, to go on after it.
    """
    from windlass.cli import output

    app = place.store()
    names = [name.strip() for each in types for name in each.split(",") if name.strip()]
    asked = {
        "types": names or None,
        "run": None if run_id is None else whole_id(app, run_id),
        "job": job,
        "follow": not no_follow,
    }
    with options_named():
        for event in _events(app, _beginning(app, since), asked):
            if as_json:
                click.echo(output.to_json(event.to_cloudevent()))
            else:
                click.echo(output.fit(_line(event, of_one=run_id is not None), output.columns()))


def _events(app: "Windlass", since: "str | datetime", asked: dict[str, Any]) -> "Iterator[Event]":
    """One after another; a terminal that is too slow goes on where it was."""
    from windlass.errors import ListenerTooSlow

    while True:
        try:
            yield from app.events(since=since, **asked)
        except ListenerTooSlow as error:
            since = error.cursor
        else:
            return


def _beginning(app: "Windlass", since: str) -> "str | datetime":
    """What is meant by --since: a length of time is how long ago."""
    from datetime import timedelta

    from windlass.duration import parse_duration
    from windlass.errors import BadDuration

    if since in ("start", "now"):
        return since
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        try:
            return app.sources.now() - timedelta(seconds=parse_duration(since))
        except BadDuration:
            return since  # the id of an event, or an error that says what may be given
    return moment.astimezone() if moment.tzinfo is None else moment


def _line(event: "Event", *, of_one: bool) -> str:
    """An event on a line: when, what, whose, and what else is known."""
    from windlass.cli import output

    here = sys.stdout.isatty()
    when = f"{event.time.astimezone():%H:%M:%S}" if here else _whole(event.time)
    parts = [output.faint(when), _typed(event.type.value)]
    if not of_one:
        # A command takes the beginning of an id: on a terminal there is more to say on the line.
        named = event.subject[:_SHORT] if here else event.subject
        parts += [output.one_line(event.job or "?"), output.faint(named)]
    said = _said(event)
    return output.GAP.join([*parts, said] if said else parts)


def _whole(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _typed(name: str) -> str:
    from windlass.cli import output

    blanks = " " * (_TYPE - len(name))
    return output.paint(name, _COLORS.get(name.rpartition(".")[2])) + blanks


def _said(event: "Event") -> str:
    """What it says beside whose it is: an error first, because terminals cut the end."""
    from windlass.cli import output
    from windlass.duration import format_duration

    said = []
    if event.error is not None:
        said.append(output.one_line(f"{event.error.type}: {event.error.message}"))
    if event.attempt > 1:
        said.append(f"attempt {event.attempt}")
    if event.duration is not None:
        said.append(f"took {format_duration(event.duration)}")
    if event.data:
        said.append(output.said_all(event.data))
    return ", ".join(said)
