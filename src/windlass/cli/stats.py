"""`windlass stats`: how many runs there are, and how deep the queues."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, json_option, place_options
from windlass.domain.counts import By

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.domain.counts import Counts, QueueState
    from windlass.domain.pause import WorkPause

QUEUE_TITLES = ("QUEUE", ">READY", ">RUNNING", ">SCHEDULED", ">WAITING", ">PAUSED", ">OLDEST")
STATUSES = ("scheduled", "queued", "running", "waiting", "paused", "failed", "canceled")


@click.command
@click.option(
    "--by",
    type=click.Choice([kind.value for kind in By]),
    default=By.STATUS.value,
    show_default=True,
    help="Count by status, and show the queues; or by queue or job, a column for each status.",
)
@json_option
@place_options
def stats(place: StorePlace, by: str, as_json: bool) -> None:
    """Count runs, and show how deep the queues are.

    Numbers with a ~ are estimates: PostgreSQL counts some thousands of each status, and estimates
    the rest. OLDEST is how long the oldest run of a queue has been ready. SCHEDULED counts what
    sleeps too, WAITING what waits for a signal or for children, PAUSED single runs; queues and
    jobs that are paused as a whole are named below.
    """
    from windlass.cli import output

    app = place.store()
    counts = app.counts(by=by)  # type: ignore[arg-type]
    if as_json:
        click.echo(output.to_json(_document(app, counts), indent=2))
        return
    if not counts:
        print_pauses(app.pauses())
        click.echo("There are no runs: make one with `windlass enqueue`.")
        return
    if counts.by is By.STATUS:
        _show(("STATUS", ">RUNS"), [(r.status, _number(r.count, r.exact)) for r in counts.rows])
        queues = app.queues()
        if queues:
            click.echo()
            _show(QUEUE_TITLES, [queue_row(queue) for queue in queues])
        print_pauses(app.pauses())
        _print_size(app)
    else:
        titles = (by.upper(), *(f">{status.upper()}" for status in STATUSES))
        _show(titles, _name_rows(counts))


def _document(app: "Windlass", counts: "Counts") -> dict[str, Any]:
    shown = counts.to_dict()
    if counts.by is By.STATUS:
        shown["queues"] = [queue.to_dict() for queue in app.queues()]
        growth = app.growth()
        oldest = None if growth.oldest is None else growth.oldest.isoformat()
        shown["store"] = {
            "bytes": growth.bytes, "reusable": growth.reusable, "oldest_run": oldest,
        }  # fmt: skip
        shown["pauses"] = [pause.to_dict() for pause in app.pauses()]
    return shown


def _show(titles: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    from windlass.cli import output

    for line in output.table(titles, rows):
        click.echo(line)


def _name_rows(counts: "Counts") -> list[tuple[str, ...]]:
    from windlass.cli import output

    cells: dict[str, dict[str, str]] = {}
    for row in counts.rows:
        cells.setdefault(row.name, {})[row.status] = _number(row.count, row.exact)
    return [
        (output.one_line(name), *(found.get(status, "") for status in STATUSES))
        for name, found in cells.items()
    ]


def queue_row(queue: "QueueState") -> tuple[str, ...]:
    """What is known of a queue, as the row of a table."""
    from windlass.cli import output
    from windlass.duration import format_duration

    return (
        output.one_line(queue.name),
        _number(queue.ready, queue.exact),
        _number(queue.running, queue.exact),
        _number(queue.scheduled, queue.exact),
        _number(queue.waiting, queue.exact),
        _number(queue.paused, queue.exact),
        "" if queue.age is None else format_duration(max(0.0, queue.age)),
    )


def print_pauses(pauses: "Sequence[WorkPause]") -> None:
    """Say which queues and jobs are paused: since when, by whom and why."""
    from windlass.cli import output

    if pauses:
        click.echo()
    for pause in pauses:
        why = "" if pause.reason is None else f": {pause.reason}"
        since = output.clock_time(pause.since)
        what = f"{pause.kind.value} {pause.name} is paused since {since} by {pause.by}{why}"
        click.echo(output.one_line(what))


def _print_size(app: "Windlass") -> None:
    """Say how large the store is, and how old what it has."""
    from windlass.cli import output

    growth = app.growth()
    free = f", of which {_megabytes(growth.reusable)} free inside" if growth.reusable else ""
    oldest = ""
    if growth.oldest is not None:
        oldest = f"; its oldest run was made {output.ago(growth.oldest, app.sources.now())}"
    click.echo()
    click.echo(f"The store has {_megabytes(growth.bytes)}{free}{oldest}.")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _number(count: int, exact: bool) -> str:
    return f"{count:,}" if exact else f"~{_rounded(count):,}"


def _rounded(count: int) -> int:
    """Three digits: an estimate has no more."""
    digits = max(0, len(str(count)) - 3)
    return round(count, -digits)
