"""`windlass cancel`, `pause`, `resume`, `terminate`, `retry` and their like: what operators do."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

import click

from windlass.cli.options import (
    StorePlace,
    acting_options,
    duration,
    json_object,
    moment,
    place_options,
    whole_id,
)


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Kept with the run, and shown with it.")
@acting_options
@place_options
def cancel(place: StorePlace, run_ids: tuple[str, ...], reason: str | None) -> None:
    """End runs that have not started; ask those that run to end.

    A running handler is notified at once, or at the latest with the next renewal of its worker's
    lease: within 10 s, unless that was set.
    """
    app = place.store()

    def end(run_id: str) -> str:
        run = app.cancel(run_id, reason=reason)
        return "canceled" if run.status.finished else "asked to end"

    one_by_one(run_ids, end, partial(whole_id, app))


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Kept in the history of the run.")
@acting_options
@place_options
def pause(place: StorePlace, run_ids: tuple[str, ...], reason: str | None) -> None:
    """Stop runs for now; they keep their place.

    A running handler stops at its next step, wait or checkpoint, and frees its seat. One that has
    none of these runs to its end. `windlass resume` lets them go on.
    """
    app = place.store()

    def stop(run_id: str) -> str:
        run = app.pause(run_id, reason=reason)
        if run.cancel_requested:
            return "was asked to end before"
        return "asked to pause" if run.pause_requested else run.status.value

    one_by_one(run_ids, stop, partial(whole_id, app))


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@acting_options
@place_options
def resume(place: StorePlace, run_ids: tuple[str, ...]) -> None:
    """Let paused runs go on where they were.

    One that slept or waited for something goes on with that, or is ready if it has come meanwhile.
    """
    app = place.store()
    one_by_one(run_ids, lambda run_id: app.resume(run_id).status.value, partial(whole_id, app))


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Kept with the run, and shown with it.")
@acting_options
@place_options
def terminate(place: StorePlace, run_ids: tuple[str, ...], reason: str | None) -> None:
    """End runs now, without waiting for their handlers.

    Use `windlass cancel` first: it lets a handler clean up. A run that is terminated loses its
    lease at once, and nothing that its handler still does is recorded.
    """
    app = place.store()

    def end(run_id: str) -> str:
        return app.terminate(run_id, reason=reason).status.value

    one_by_one(run_ids, end, partial(whole_id, app))


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option("--from", "step", metavar="STEP", help="Keep what came before this step or phase.")
@acting_options
@place_options
def restart(place: StorePlace, run_ids: tuple[str, ...], step: str | None) -> None:
    """Let runs begin anew, with their input; their durable steps are done again.

    `windlass retry` goes on with the first step that is not done. A running run has to be paused,
    canceled or terminated first.

    \b
    windlass restart 0197c0de-...
    windlass restart 0197c0de-... --from charge
    """
    app = place.store()
    one_by_one(
        run_ids, lambda run_id: app.restart(run_id, step=step).status.value, partial(whole_id, app)
    )


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--max-attempts", metavar="N", type=int, help="How many failures end it, counted anew."
)
@click.option(
    "--input", "input_", metavar="JSON", callback=json_object, help="Other arguments, all of them."
)
@acting_options
@place_options
def retry(
    place: StorePlace,
    run_ids: tuple[str, ...],
    max_attempts: int | None,
    input_: dict[str, Any] | None,
) -> None:
    """Run failed or canceled runs once more, with a fresh budget of attempts.

    Each keeps its id, its history and, unless you give another, its input. `windlass run-again`
    makes a new run instead.
    """
    app = place.store()

    def reopen(run_id: str) -> str:
        return app.retry(run_id, max_attempts=max_attempts, input=input_).status.value

    one_by_one(run_ids, reopen, partial(whole_id, app))


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--at", metavar="TIME", callback=moment, help="ISO 8601; local time unless it names a zone."
)
@click.option("--delay", metavar="DURATION", callback=duration, help="In so long, from now.")
@acting_options
@place_options
def reschedule(
    place: StorePlace, run_ids: tuple[str, ...], at: datetime | None, delay: float | None
) -> None:
    """Move runs that have not started to another time; run ended ones again at that time.

    A time that has come already, or --delay 0, makes them ready now. What waits keeps its count of
    failures; what failed or was canceled gets a fresh budget of attempts, as by retry.

    \b
    windlass reschedule 0197c0de-... --delay 90m
    windlass reschedule 0197c0de-... --at 2030-01-31T12:00Z
    """
    from windlass.cli.output import clock_time

    if (at is None) == (delay is None):
        raise click.UsageError("Give either --at or --delay.")
    app = place.store()

    def move(run_id: str) -> str:
        run = app.reschedule(run_id, at=at, delay=delay)
        due = "" if run.due_at is None else f" for {clock_time(run.due_at)}"
        return f"{run.status.value}{due}"

    one_by_one(run_ids, move, partial(whole_id, app))


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option("--priority", metavar="N", type=int, help="Larger is more urgent; 0 is usual.")
@click.option("--queue", metavar="NAME", help="Move them to this queue.")
@acting_options
@place_options
def reprioritize(
    place: StorePlace, run_ids: tuple[str, ...], priority: int | None, queue: str | None
) -> None:
    """Change the priority or the queue of runs that have not started.

    Each keeps the time at which it became ready, so it runs before those that became ready later.

    \b
    windlass reprioritize 0197c0de-... --priority 10
    windlass reprioritize 0197c0de-... --queue slow --priority -5
    """
    if priority is None and queue is None:
        raise click.UsageError("Give --priority, --queue, or both.")
    app = place.store()

    def move(run_id: str) -> str:
        run = app.reprioritize(run_id, priority=priority, queue=queue)
        return f"{run.status.value} in {run.queue} with priority {run.priority}"

    one_by_one(run_ids, move, partial(whole_id, app))


def one_by_one(
    names: Iterable[str], act: Callable[[str], str], whole: Callable[[str], str] = str
) -> None:
    """Act on each and say what came of it; one that refuses does not spare the others.

    `whole` makes of what was typed the name that it stands for.
    """
    from windlass.cli.failures import exit_code, print_error
    from windlass.errors import ConflictError, NotFound

    code = 0
    for given in names:
        try:
            name = whole(given)
            click.echo(f"{name} {act(name)}")
        except (ConflictError, NotFound) as error:
            print_error(error)
            code = code or exit_code(error)
    click.get_current_context().exit(code)
