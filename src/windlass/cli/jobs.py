"""`windlass jobs`: the jobs of the application and its job files."""

import os
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, acting_options, json_option, place_options

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.errors import JobFileError
    from windlass.files.registry import RegisteredJob
    from windlass.files.stored import StoredJob

TITLES = ("JOB", "SCHEDULE", "VERSION", "WHERE", "NOTE")
STORED_TITLES = ("JOB", "QUEUE", "TAKES", "VERSION", "CREATED", "UPDATED")


@click.group
def jobs() -> None:
    """List jobs and their last runs, check their files, pause and resume them."""


@jobs.command("list")
@click.option("--stored", is_flag=True, help="List the jobs that workers stored; needs no code.")
@json_option
@place_options
def list_(place: StorePlace, stored: bool, as_json: bool) -> None:
    """List all jobs: of the application, of its job files, and those that only the store knows.

    The store knows the jobs of every worker that has run on it. One that is not in the code here
    has `store` in the column WHERE. With --json each has `where`: code, file or store.
    """
    from windlass.cli import output

    if stored:
        _list_stored(place, as_json=as_json)
        return
    app, _ = load(place)
    found = app.jobs.list()
    others = _known_elsewhere(app)
    if as_json:
        shown_jobs = [_dict(job) for job in found] + [_stored_dict(job) for job in others]
        shown_jobs.sort(key=lambda job: (job["name"], job["file"] or ""))
        click.echo(output.to_json(shown_jobs, indent=2))
        return
    rows = sorted([*map(_row, found), *map(_stored_row, others)])
    nothing = f"There are no jobs: write one into {shown(app.settings.jobs)}{os.sep}."
    output.print_listing(TITLES, rows, nothing)


@jobs.command
@click.argument("name")
@json_option
@place_options
def runs(place: StorePlace, name: str, as_json: bool) -> None:
    """Show the last 50 runs of a job, newest first."""
    from windlass.cli import output
    from windlass.cli.runs import print_runs

    app = place.store()
    found = app.jobs.runs(name)
    if as_json:
        click.echo(output.to_json([run.to_dict() for run in found], indent=2))
    else:
        print_runs(found, app.sources.now(), f"Job {name!r} has no runs.")


@jobs.command
@click.argument("names", metavar="JOB...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Shown wherever the pause is.")
@acting_options
@place_options
def pause(place: StorePlace, names: tuple[str, ...], reason: str | None) -> None:
    """Start no run of a job, on any worker, until `windlass jobs resume`.

    Runs that are running go on. What waits keeps its place; `expires` and `deadline` go on.
    """
    from windlass.cli.queues import pause_each

    pause_each("job", names, partial(place.store().pause_job, reason=reason))


@jobs.command
@click.argument("names", metavar="JOB...", nargs=-1, required=True)
@acting_options
@place_options
def resume(place: StorePlace, names: tuple[str, ...]) -> None:
    """Let paused jobs go on."""
    from windlass.cli.queues import resume_each

    resume_each("job", names, place.store().resume_job)


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
            files = len({job.file for job in app.jobs.list() if job.file is not None})
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


def _known_elsewhere(app: "Windlass") -> "Sequence[StoredJob]":
    """The jobs that the store knows and the code here does not."""
    from windlass.cli.failures import sentence
    from windlass.cli.loading import absent_file
    from windlass.errors import StoreError

    if absent_file(app) is not None:
        return ()
    try:
        app.store.schema_version()  # at once: a call would wait patiently for a server
        return [job for job in app.jobs.stored() if job.name not in app.jobs]
    except StoreError as error:
        click.echo(f"windlass: Jobs of the store are not listed: {sentence(error)}", err=True)
        return ()


def _row(job: "RegisteredJob") -> tuple[str, ...]:
    from windlass.cli import output

    return (
        output.one_line(job.name),
        output.one_line(job.schedule or ""),
        job.version or "",
        "code" if job.file is None else output.one_line(shown(job.file)),
        "" if job.error is None else output.paint(told(job.error), "red"),
    )


def _stored_row(job: "StoredJob") -> tuple[str, ...]:
    from windlass.cli import output

    return output.one_line(job.name), "", job.version or "", "store", ""


def _list_stored(place: StorePlace, *, as_json: bool) -> None:
    from windlass.cli import output

    app = place.store()
    found = app.jobs.stored()
    if as_json:
        click.echo(output.to_json([job.to_dict() for job in found], indent=2))
    else:
        rows = [_whole_row(job, app.sources.now()) for job in found]
        nothing = "The store knows no jobs: no worker has been started on it yet."
        output.print_listing(STORED_TITLES, rows, nothing)


def _whole_row(job: "StoredJob", now: datetime) -> tuple[str, ...]:
    from windlass.cli import output

    return (
        output.one_line(job.name),
        output.one_line(job.queue),
        output.one_line(_takes(job)),
        job.version or "",
        output.ago(job.created_at, now),
        output.ago(job.updated_at, now),
    )


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
        "where": "code" if job.file is None else "file",
        "file": None if job.file is None else str(job.file),
        "schedule": job.schedule,
        "version": job.version,
        "error": None if job.error is None else _problem(job.error),
    }


def _stored_dict(job: "StoredJob") -> dict[str, Any]:
    return {
        "name": job.name,
        "where": "store",
        "file": None,
        "schedule": None,
        "version": job.version,
        "error": None,
    }


def _problem(error: "JobFileError") -> dict[str, Any]:
    return {"file": error.file, "line": error.line, "why": error.why}
