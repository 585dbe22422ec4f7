"""`windlass enqueue`: makes a run of a job."""

from typing import TYPE_CHECKING, Any, NoReturn

import click

from windlass.cli.arguments import job_arguments
from windlass.cli.options import (
    StorePlace,
    duration,
    json_object,
    json_option,
    moment,
    moment_or_duration,
    place_options,
)

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.client import Run
    from windlass.errors import UnknownJob


@click.command
@click.argument("job")
@job_arguments
@click.option(
    "--delay", metavar="DURATION", callback=duration, help="Start after this time at the earliest."
)
@click.option(
    "--at",
    metavar="TIME",
    callback=moment,
    help="Start at this time at the earliest: ISO 8601, local unless it has an offset.",
)
@click.option("--priority", metavar="N", type=int, help="Larger is more urgent.")
@click.option("--key", metavar="TEXT", help="If the job has a run with this key, print that one.")
@click.option(
    "--key-ttl", metavar="DURATION", callback=duration, help="Free the key after this time."
)
@click.option(
    "--unique",
    type=click.Choice(["live"]),
    help="live: free the key when its run has ended.",
)
@click.option("--queue", metavar="NAME", help="Use this queue instead of the job's.")
@click.option(
    "--tag", "tags", metavar="TEXT", multiple=True, help="A word to find it by. Repeatable."
)
@click.option(
    "--expires",
    metavar="DURATION|TIME",
    callback=moment_or_duration,
    help="Fail it if it has not started by then.",
)
@click.option(
    "--deadline",
    metavar="DURATION|TIME",
    callback=moment_or_duration,
    help="Fail it if it is not done by then.",
)
@click.option("--max-attempts", metavar="N", type=int, help="Give up after so many failures.")
@click.option(
    "--timeout", metavar="DURATION", callback=duration, help="How long one attempt may take."
)
@click.option(
    "--metadata", metavar="JSON", callback=json_object, help="What to note about it, as an object."
)
@click.option("--trace", metavar="TEXT", help="The trace that it belongs to.")
@click.option(
    "--after", metavar="RUN", multiple=True, help="Start when this run has ended. Repeatable."
)
@click.option(
    "--after-failure",
    type=click.Choice(["cancel", "run"]),
    help="What to do if such a run does not succeed: cancel (the default), or run all the same.",
)
@click.option("--wait", is_flag=True, help="Wait for the end; print the result as JSON.")
@click.option(
    "--timeout-wait", metavar="DURATION", callback=duration, help="How long to wait at most."
)
@json_option
@place_options
def enqueue(
    place: StorePlace,
    job: str,
    input_: dict[str, Any] | None,
    wait: bool,
    timeout_wait: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue a run of JOB and print its id.

    The arguments are a JSON object (`-` reads it from standard input, `@FILE` from a file), or
    NAME=VALUE for each, or both. Without --app the job must be known to the store, as those of
    every worker that has started are.

    \b
    windlass enqueue send_welcome '{"user_id": 7}'
    windlass enqueue resize path=/tmp/a.png width=200 --wait
    """
    from windlass.cli.output import to_json
    from windlass.cli.slow_store import knock

    if timeout_wait is not None and not wait:
        raise click.UsageError("--timeout-wait goes with --wait.")
    given = {name: value for name, value in options.items() if value not in (None, ())}
    app = place.store(existing=False)
    knock(app)
    run = _enqueue(app, job, input_, given)
    if wait:
        _mention_missing_worker(app, run)
        _wait(run, timeout_wait, as_json=as_json)
    else:
        click.echo(to_json(run.to_dict(), indent=2) if as_json else run.id)


def _enqueue(
    app: "Windlass", job: str, input_: dict[str, Any] | None, options: dict[str, Any]
) -> "Run":
    from windlass.cli.loading import absent_file, must_exist
    from windlass.errors import UnknownJob

    if job not in app.jobs and absent_file(app) is not None:  # which would know no job either
        if app.jobs:
            explain_unknown(app, UnknownJob(job))
        must_exist(app)
    try:
        return app.enqueue(job, input_, **options)
    except UnknownJob as error:
        explain_unknown(app, error)


def explain_unknown(app: "Windlass", error: "UnknownJob") -> NoReturn:
    """A job is known to the code that defines it, and to the store once a worker had it."""
    from windlass.cli.loading import absent_file
    from windlass.errors import UnknownJob, UsageError

    missing = absent_file(app) is not None  # to ask a file is to make it
    stored = () if missing else app.store.run(app.store.operations.list_jobs(app.settings.tenant))
    known = sorted({*app.jobs, *(row.name for row in stored)})
    better = UnknownJob(error.job, known)
    if "did you mean" in str(better):
        raise better from None
    names = ", ".join(known[:10]) + ("…" if len(known) > 10 else "")
    there = f"there are {names}" if known else "no worker has told the store of any job yet"
    raise UsageError(
        f"There is no job {error.job!r}: {there}; start a worker that has it, or name the "
        "application that defines it by --app."
    ) from None


def _mention_missing_worker(app: "Windlass", run: "Run") -> None:
    """Say it if nobody would take the run: waiting in silence looks like a command that hangs."""
    workers = [worker for worker in app.workers(runs=0) if worker.alive]
    if run.status.finished or any(worker.serves(run.queue, run.job) for worker in workers):
        return
    who = "No worker is running" if not workers else f"No worker that is running serves {run.job!r}"
    queue = f" --queues {run.queue}" if any(run.job in worker.jobs for worker in workers) else ""
    click.echo(
        f"windlass: {who}: start one with `windlass worker{queue}` in another terminal. Waiting "
        f"for run {run.id}; Ctrl-C leaves it in its queue.",
        err=True,
    )


def _wait(run: "Run", timeout: float | None, *, as_json: bool) -> None:
    from windlass.cli.output import to_json
    from windlass.errors import RunFailed

    try:
        run.wait(timeout)
    except KeyboardInterrupt:
        click.echo(f"windlass: Not waiting any longer; run {run.id} goes on.", err=True)
        raise
    if as_json:
        click.echo(to_json(run.to_dict(), indent=2))
    elif run.status == "succeeded":
        click.echo(to_json(run.raw_result))
    if run.status != "succeeded":
        raise RunFailed(run.id, run.status.value, run.failure, run.error, run.reason)
