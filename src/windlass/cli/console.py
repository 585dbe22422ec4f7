"""What `windlass dev` shows: the jobs and their last runs, then a line for each thing that happens.

The same lines go to a terminal, in colours, and into a pipe, without.
"""

import logging
import re
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass import logs
from windlass.cli import output
from windlass.cli.generations import shown_files
from windlass.cli.jobs import shown, told
from windlass.cli.loading import absent_file
from windlass.cli.runs import note
from windlass.errors import WindlassError
from windlass.modules import is_library
from windlass.sources import SystemClock

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.cli.link import Link
    from windlass.client import Run
    from windlass.files.registry import RegisteredJob

_BELOW = " " * len("00:00:00  ")
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_GAVE_UP_SEAT = {"sleeps": "sleeping", "waits": "waiting"}  # "waits for paid": in which colour
TITLES = ("JOB", "SCHEDULE", "LAST RUN", ">TOOK", "NOTE")

_HELLO = """\
There are no jobs yet. Save this as {file}, and watch it run:

    async def run(ctx, name="world"):
        ctx.log.info("Hello, %s", name)

    $ windlass enqueue hello
"""


class Console:
    """The screen of one `windlass dev`."""

    def __init__(self, app: "Windlass", level: str, link: "Link | None" = None) -> None:
        """`link`: to the process that replaces this one when the code changes, and says so."""
        self._app = app
        handler = logs.configure("console", level, stream=sys.stdout)
        if link is not None:
            handler.addFilter(lambda record: not _is_handover(record, link))
        # It tells how many files it saw change; we tell which.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        handler.setFormatter(_Formatter())

    def greet(self) -> None:
        """Show the jobs, the last run of each, and where everything is."""
        app = self._app
        new = "" if absent_file(app) is None else "  (new)"
        click.echo(f"{output.heading('store')}  {app.store.place}{new}")
        click.echo(f"{output.heading('jobs')}   {shown(app.settings.jobs)}")
        click.echo()
        found = app.jobs.list()
        if not found:
            click.echo(_HELLO.format(file=shown(app.settings.jobs / "hello.py")))
            return
        rows = [self._row(job) for job in found]
        for line in output.table(TITLES, rows):
            click.echo(line)
        click.echo()

    def _row(self, job: "RegisteredJob") -> tuple[str, ...]:
        run = self._last(job.name)
        now = self._app.sources.now()
        last = took = why = ""
        if run is not None:
            last = f"{output.status_text(run.status.value)} {output.ago(run.created_at, now)}"
            why = note(run, now)
            if run.started_at is not None and run.finished_at is not None:
                took = output.took(run.started_at, run.finished_at)
        if job.error is not None:
            why = output.paint(told(job.error), "red")
        return output.one_line(job.name), job.schedule or "", last, took, why

    def _last(self, name: str) -> "Run | None":
        try:
            found = self._app.list(job=name, limit=1)
        except WindlassError:
            return None  # the worker tells what is wrong with the store
        return found[0] if found else None


def show_change(files: Collection[str], error: str | None) -> None:
    """Show that files of the application have changed, and the error if the new code has one."""
    names = shown_files(files)
    now = output.faint(f"{SystemClock().now().astimezone():%H:%M:%S}")
    if error is None:
        line = f"{now}  {names}  {output.faint('changed: the new code runs')}"
    else:
        click.echo(f"{now}  {output.paint(output.one_line(error), 'red')}")  # never cut: it is all
        line = _BELOW + output.faint(f"{names} changed: the old code goes on")
    click.echo(output.fit(line, output.columns()))


def _is_handover(record: logging.LogRecord, link: "Link") -> bool:
    """Whether it only says that one process takes over from another."""
    if record.name != "windlass.engine.worker" or record.levelno > logging.INFO:
        return False
    return link.superseded or (not link.first and record.msg == "worker started")


class _Formatter(logging.Formatter):
    """One line for what happens to a run or a file, and below it where it failed; anything else as
    in any log. On a terminal each line is cut to its width."""

    def __init__(self) -> None:
        super().__init__()
        self._plain = logs.ConsoleFormatter(color=output.colorful())

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's lines."""
        text = self._text(record)
        if record.name == "windlass.cli.serving":
            return text  # why it does not end at once, for one
        width = output.columns()
        lines = text.split("\n")
        return "\n".join(output.fit(line, width) for line in lines)

    def _text(self, record: logging.LogRecord) -> str:
        given = record.__dict__
        match record.name:
            case "windlass.run" if record.msg == "run %s":
                text = _run_line(record.getMessage().removeprefix("run "), given)
            case "windlass.run" if logs.COUNTS in given:
                text = output.faint(logs.escape(record.getMessage()))
            case "windlass.engine.worker" | "windlass.cli.serving" if (
                record.levelno <= logging.INFO
            ):
                text = output.faint(record.getMessage())
            case "windlass.files.registry":
                text = _file_line(record, given)
            case "windlass.schedules.declared" if record.levelno <= logging.INFO:
                text = f"{output.one_line(given['schedule'])}  {output.faint(record.getMessage())}"
            case "windlass.run" if not record.exc_info:
                text = f"{given['job']}  {output.faint('|')} {logs.escape(record.getMessage())}"
            case _:
                return self._plain.format(record)
        moment = datetime.fromtimestamp(record.created, UTC).astimezone()
        return f"{output.faint(f'{moment:%H:%M:%S}')}  {text}"


def _run_line(outcome: str, given: dict[str, Any]) -> str:
    color = output.STATUS_COLORS.get(_GAVE_UP_SEAT.get(outcome.split()[0], outcome))
    said = output.paint(output.one_line(outcome), color)
    words = [given["job"], said, f"{given['duration_ms']:g} ms"]
    if given["attempt"] > 1:
        words.append(f"attempt {given['attempt']}")
    if "error" in given:
        words.append(output.paint(output.one_line(str(given["error"])), "red"))
    if "delay" in given:
        words.append(f"again in {given['delay']:g} s")
    lines = ["  ".join(words)]
    if "error" in given:
        place = _place_of(given.get(logs.TRACEBACK))
        lines += [_BELOW + place] if place else []
        lines.append(_BELOW + output.faint(f"windlass show {given['run']}"))
    return "\n".join(lines)


def _place_of(trace: object) -> str | None:
    """Where it failed: the innermost line of a traceback that is not a library's."""
    found = _FRAME.findall(trace) if isinstance(trace, str) else []
    own = [frame for frame in found if not is_library(frame[0])]
    if not own:
        return None
    file, line, function = own[-1]
    return output.one_line(f"{shown(Path(file))}:{line}, in {function}")


def _file_line(record: logging.LogRecord, given: dict[str, Any]) -> str:
    if "error" in given:
        kept = record.getMessage().partition("; ")[2]
        text = output.paint(output.one_line(str(given["error"])), "red")
        return f"{text}  {output.faint(f'({kept})')}" if kept else text
    return f"{given['job']}  {output.faint(record.getMessage().removeprefix('job '))}"
