"""`windlass jobs`: the jobs of the application and its job files."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, json_option, place_options

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.errors import JobFileError
    from windlass.files.registry import RegisteredJob
    from windlass.files.stored import StoredJob

TITLES = ("JOB", "SCHEDULE", "VERSION", "WHERE", "NOTE")
STORED_TITLES = ("JOB", "QUEUE", "TAKES", "VERSION", "CREATED", "UPDATED")


@click.group
def jobs() -> None:
    """Look at jobs: list them, their last runs, or what is wrong with their files."""


@jobs.command("list")
@click.option("--stored", is_flag=True, help="List the jobs that workers stored; needs no code.")
@json_option
@place_options
def list_(place: StorePlace, stored: bool, as_json: bool) -> None:
    """List the jobs of the application and of its job files."""
    from windlass.cli import output

    if stored:
        _list_stored(place, as_json=as_json)
        return
    app, _ = load(place)
    found = app.jobs.list()
    if as_json:
        click.echo(output.to_json([_dict(job) for job in found], indent=2))
        return
    if not found:
        click.echo(f"There are no jobs: write one into {shown(app.settings.jobs)}{os.sep}.")
        return
    for line in job_table(found):
        click.echo(line)


@jobs.command
@click.argument("name")
@json_option
@place_options
def runs(place: StorePlace, name: str, as_json: bool) -> None:
    """Show the last 50 runs of a job, newest first."""
    from windlass.cli import output
    from windlass.cli.runs import run_table

    app = place.store()
    found = app.jobs.runs(name)
    if as_json:
        click.echo(output.to_json([run.to_dict() for run in found], indent=2))
    elif not found:
        click.echo(f"Job {name!r} has no runs.")
    else:
        for line in run_table(found, app.sources.now()):
            click.echo(line)


@jobs.command
@json_option
@place_options
def check(place: StorePlace, as_json: bool) -> None:
    """Report what is wrong with the job files; exit with 1 if anything is.

    Each problem is one line, FILE:LINE: WHY. It runs no job, but the files are imported.
    """
    from windlass.cli import output

    app, errors = load(place)
    if as_json:
        click.echo(output.to_json([_problem(error) for error in errors], indent=2))
    else:
        for error in errors:
            click.echo(told(error))
        if not errors:
            files = sum(job.file is not None for job in app.jobs.list())
            click.echo(f"{files} job file{'' if files == 1 else 's'}, nothing wrong.")
    click.get_current_context().exit(1 if errors else 0)


def load(place: StorePlace) -> "tuple[Windlass, Sequence[JobFileError]]":
    """The application with its job files, and what is wrong with those."""
    app = place.application(alone=True)
    return app, app.jobs.load()


def told(error: "JobFileError") -> str:
    """An error with its file as seen from here, on one line."""
    from windlass.cli.output import one_line

    line = "" if error.line is None else f":{error.line}"
    return one_line(f"{shown(Path(error.file))}{line}: {error.why}")


def shown(path: Path) -> str:
    """A path as seen from here, where that is shorter."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def job_table(found: "Sequence[RegisteredJob]") -> list[str]:
    """One row for each job."""
    from windlass.cli import output

    rows = [
        (
            output.one_line(job.name),
            output.one_line(job.schedule or ""),
            job.version or "",
            "code" if job.file is None else output.one_line(shown(job.file)),
            "" if job.error is None else output.paint(told(job.error), "red"),
        )
        for job in found
    ]
    return output.table(TITLES, rows)


def _list_stored(place: StorePlace, *, as_json: bool) -> None:
    from windlass.cli import output

    app = place.store()
    found = app.jobs.stored()
    if as_json:
        click.echo(output.to_json([job.to_dict() for job in found], indent=2))
    elif not found:
        click.echo("The store knows no jobs: no worker has been started on it yet.")
    else:
        for line in stored_table(found, app.sources.now()):
            click.echo(line)


def stored_table(found: "Sequence[StoredJob]", now: datetime) -> list[str]:
    """One row for each job that the store knows."""
    from windlass.cli import output

    rows = [
        (
            output.one_line(job.name),
            output.one_line(job.queue),
            output.one_line(_takes(job)),
            job.version or "",
            output.ago(job.created_at, now),
            output.ago(job.updated_at, now),
        )
        for job in found
    ]
    return output.table(STORED_TITLES, rows)


def _takes(job: "StoredJob") -> str:
    if job.parameters is None:
        return "anything"
    return ", ".join(map(_parameter, job.parameters)) or "nothing"


def _parameter(parameter: dict[str, Any]) -> str:
    name = str(parameter["name"])
    return name if parameter["required"] or name.startswith("**") else f"{name}?"


def _dict(job: "RegisteredJob") -> dict[str, Any]:
    return {
        "name": job.name,
        "file": None if job.file is None else str(job.file),
        "schedule": job.schedule,
        "version": job.version,
        "error": None if job.error is None else _problem(job.error),
    }


def _problem(error: "JobFileError") -> dict[str, Any]:
    return {"file": error.file, "line": error.line, "why": error.why}
