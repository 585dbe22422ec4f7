"""`windlass logs`: what the handler of a run has logged."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from windlass.cli.options import StorePlace, json_option, options_named, place_options, whole_id

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.domain.runlog import LogLine

_EVERY = 0.5  # seconds between two looks
_LAST = 1.5  # seconds after the end of a run in which its last lines come


@click.command
@click.argument("run_id", metavar="RUN")
@click.option("--attempt", metavar="N", type=int, help="Only those of one attempt.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended.")
@json_option
@place_options
def logs(place: StorePlace, run_id: str, attempt: int | None, follow: bool, as_json: bool) -> None:
    """Show what the handler of a run has logged, attempt by attempt.

    Lines are written once a second. With --json, each is an object on a line of its own.

    \b
    windlass logs 0197c0de-...
    windlass logs 0197c0de-... --follow
    windlass logs 0197c0de-... --attempt 2 --json
    """
    app = place.store()
    run = whole_id(app, run_id)
    with options_named():
        lines = _follow(app, run, attempt) if follow else iter(app.logs(run, attempt=attempt))
        known, shown = 0, False
        for line in lines:
            shown = True
            if not as_json and line.attempt != known:
                known = line.attempt
                click.secho(f"attempt {known}", dim=True)
            _show(line, as_json)
    if not shown and not as_json:
        click.echo("Nothing was logged.", err=True)


def _follow(app: "Windlass", run: str, attempt: int | None) -> Iterator["LogLine"]:
    """Lines as they come, until none can come any more."""
    last: LogLine | None = None
    ended: float | None = None
    while True:
        if ended is None and app.get(run).finished_at is not None:
            ended = time.monotonic()
        lines = app.logs(run, after=last)
        for line in lines:
            last = line
            if attempt in (None, line.attempt):
                yield line
        if ended is not None and time.monotonic() - ended > _LAST:
            return
        time.sleep(_EVERY)


def _show(line: "LogLine", as_json: bool) -> None:
    from windlass.cli import output

    if as_json:
        click.echo(output.to_json(line.to_dict()))
        return
    words = [output.clock_time(line.at), f"{output.one_line(line.level):<8}"]
    words += [output.one_line(text) for text in line.message.splitlines()[:1]]
    words += [f"{output.one_line(k)}={output.one_line(str(v))}" for k, v in line.fields.items()]
    click.echo(" ".join(words))
    rest = [*line.message.splitlines()[1:], *(line.exception or "").splitlines()]
    for text in rest:
        click.echo(f"  | {output.one_line(text)}")
