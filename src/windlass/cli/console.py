"""What `windlass dev` shows: the jobs and their last runs, then a line for each thing that happens.

The same lines go to a terminal, in colours, and into a pipe, without.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from windlass import logs
from windlass.cli import output
from windlass.cli.jobs import shown, told
from windlass.cli.runs import note
from windlass.errors import WindlassError

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.client import Run
    from windlass.files.registry import RegisteredJob

TITLES = ("JOB", "SCHEDULE", "LAST RUN", ">TOOK", "NOTE")

_HELLO = """\
There are no jobs yet. Save this as {file}, and watch it run:

    async def run(ctx, name="world"):
        ctx.log.info("Hello, %s", name)

    $ windlass enqueue hello
"""


class Console:
    """The screen of one `windlass dev`."""

    def __init__(self, app: "Windlass", level: str) -> None:
        self._app = app
        handler = logs.configure("console", level, stream=sys.stdout)
        # It tells how many files it saw change; we tell which.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        handler.setFormatter(_Formatter())

    def greet(self) -> None:
        """Show the jobs, the last run of each, and where everything is."""
        app = self._app
        click.echo(f"{output.heading('store')}  {app.store.place}")
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


class _Formatter(logging.Formatter):
    """One line for what happens to a run or a file; anything else as in any log."""

    def __init__(self) -> None:
        super().__init__()
        self._plain = logs.ConsoleFormatter(color=output.colorful())

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's line."""
        given = record.__dict__
        match record.name:
            case "windlass.run" if record.msg == "run %s":
                text = _run_line(record.getMessage().removeprefix("run "), given)
            case "windlass.run" if logs.COUNTS in given:
                text = output.faint(logs.escape(record.getMessage()))
            case "windlass.engine.worker" if record.levelno <= logging.INFO:
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
    words = [given["job"], output.status_text(outcome), f"{given['duration_ms']:g} ms"]
    if given["attempt"] > 1:
        words.append(f"attempt {given['attempt']}")
    if "error" in given:
        words.append(output.paint(output.one_line(str(given["error"])), "red"))
        words.append(output.faint(f"windlass show {given['run']}"))
    if "delay" in given:
        words.append(f"again in {given['delay']:g} s")
    return "  ".join(words)


def _file_line(record: logging.LogRecord, given: dict[str, Any]) -> str:
    if "error" in given:
        kept = record.getMessage().partition("; ")[2]
        text = output.paint(output.one_line(str(given["error"])), "red")
        return f"{text}  {output.faint(f'({kept})')}" if kept else text
    return f"{given['job']}  {output.faint(record.getMessage().removeprefix('job '))}"
