"""`windlass workers`: who is alive, and what each is doing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli.options import StorePlace, json_option, place_options

if TYPE_CHECKING:
    from windlass.domain.inspection import WorkerState

TITLES = (
    "WORKER",
    "STATE",
    ">SEATS",
    ">STARTED",
    ">RENEWED",
    ">LEASE",
    "VERSION",
    "QUEUES",
    "JOBS",
)
RUN_TITLES = ("RUN", "JOB", "QUEUE", ">ATTEMPT", ">STARTED", "WORKER")


@click.command
@click.option(
    "--runs",
    "most",
    metavar="N",
    type=click.IntRange(0, 1000),
    default=20,
    show_default=True,
    help="Name at most so many runs of each worker, the oldest first.",
)
@json_option
@place_options
def workers(place: StorePlace, most: int, as_json: bool) -> None:
    """Show who is alive, and what each is doing.

    A worker is dead when its lease has run out; it is listed until another worker has taken its
    runs. It is blocked when its event loop does not answer. A worker's name is HOST:PID:SERIES. All
    times are by the store's clock.
    """
    from windlass.cli import output

    found = place.store().workers(runs=most)
    if as_json:
        click.echo(output.to_json([worker.to_dict() for worker in found], indent=2))
        return
    if not found:
        click.echo("No worker is running: start one with `windlass worker`.")
        return
    for line in output.table(TITLES, [_row(worker) for worker in found]):
        click.echo(line)
    rows = [row for worker in found for row in _run_rows(worker)]
    if rows:
        click.echo()
        for line in output.table(RUN_TITLES, rows):
            click.echo(line)
    for line in filter(None, map(_blocked_line, found)):
        click.echo(line, err=True)
    click.echo(summary(found), err=True)


def summary(found: "Sequence[WorkerState]") -> str:
    """How many there are, in a sentence."""
    alive = [worker for worker in found if worker.alive]
    busy, seats = sum(w.busy for w in alive), sum(w.seats for w in alive)
    hidden = sum(worker.busy - len(worker.running) for worker in found)
    text = f"{len(alive)} alive, {busy:,} of {seats:,} seats taken"
    if len(alive) < len(found):
        text += f"; {len(found) - len(alive)} dead, to be reaped by the next worker that looks"
    return f"{text}; {hidden:,} runs more than are listed." if hidden else f"{text}."


def _row(worker: "WorkerState") -> tuple[str, ...]:
    from windlass.cli import output

    now = worker.seen_at
    state = output.paint("alive", "green") if worker.alive else output.paint("dead", "red")
    if worker.alive and worker.blocked is not None:
        state = output.paint("blocked", "yellow")
    left = f"{max(0.0, worker.lease_left):.0f} s"
    return (
        output.one_line(worker.id),
        state,
        f"{worker.busy}/{worker.seats}",
        output.ago(worker.started_at, now),
        "" if worker.renewed_at is None else output.ago(worker.renewed_at, now),
        left if worker.alive else output.ago(worker.alive_until, now),
        output.one_line(worker.version),
        "all" if worker.queues is None else output.one_line(",".join(worker.queues)),
        output.one_line(",".join(worker.jobs)),
    )


def _blocked_line(worker: "WorkerState") -> str | None:
    from windlass.cli import output
    from windlass.duration import format_duration

    if not worker.alive or worker.blocked is None:
        return None
    who = "" if worker.blocked_run is None else f" by run {worker.blocked_run}"
    name = output.one_line(worker.id)
    return f"{name}: its event loop has been blocked{who} for {format_duration(worker.blocked)}."


def _run_rows(worker: "WorkerState") -> list[tuple[str, ...]]:
    from windlass.cli import output

    return [
        (
            run.id,
            output.one_line(run.job),
            output.one_line(run.queue),
            str(run.attempt),
            output.ago(run.started_at, worker.seen_at),
            output.one_line(worker.id),
        )
        for run in worker.running
    ]
