"""`windlass queues`: what waits in each queue; pause and resume queues."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from windlass.cli.options import StorePlace, acting_options, json_option, place_options

if TYPE_CHECKING:
    from windlass.domain.pause import WorkPause


@click.group
def queues() -> None:
    """List queues, pause and resume them."""


@queues.command("list")
@json_option
@place_options
def list_(place: StorePlace, as_json: bool) -> None:
    """List the queues that have runs or are paused, the deepest first; and jobs that are paused."""
    from windlass.cli import output
    from windlass.cli.stats import QUEUE_TITLES, print_pauses, queue_row

    app = place.store()
    found, pauses = app.queues(), app.pauses()
    if as_json:
        shown = {
            "queues": [queue.to_dict() for queue in found],
            "pauses": [pause.to_dict() for pause in pauses],
        }
        click.echo(output.to_json(shown, indent=2))
        return
    rows = [queue_row(queue) for queue in found]
    output.print_listing(QUEUE_TITLES, rows, "No queue has runs that wait or run.")
    print_pauses(pauses)


@queues.command
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Shown wherever the pause is.")
@acting_options
@place_options
def pause(place: StorePlace, names: tuple[str, ...], reason: str | None) -> None:
    """Start nothing from a queue, on any worker, until `windlass queues resume`.

    Runs that are running go on. What waits keeps its place, and runs may be enqueued meanwhile;
    `expires` and `deadline` go on.
    """
    pause_each("queue", names, partial(place.store().pause_queue, reason=reason))


@queues.command
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@acting_options
@place_options
def resume(place: StorePlace, names: tuple[str, ...]) -> None:
    """Let paused queues go on."""
    resume_each("queue", names, place.store().resume_queue)


def pause_each(kind: str, names: tuple[str, ...], stop: "Callable[[str], WorkPause]") -> None:
    """Pause each, and say since when and by whom it is paused."""
    from windlass.cli import output

    for name in names:
        found = stop(name)
        since = output.clock_time(found.since)
        click.echo(output.one_line(f"{kind} {name} paused since {since} by {found.by}"))


def resume_each(kind: str, names: tuple[str, ...], go_on: Callable[[str], bool]) -> None:
    """Let each go on, and say whether it was paused."""
    from windlass.cli import output

    for name in names:
        done = "resumed" if go_on(name) else "was not paused"
        click.echo(output.one_line(f"{kind} {name} {done}"))
