"""`windlass runs cancel` and its like: a verb for all runs that filters select.

A further verb is one more function here: its own options, and the call that applies it.
"""

import functools
import sys
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.changing import change_options
from windlass.cli.options import (
    StorePlace,
    acting_options,
    duration,
    json_option,
    moment,
    place_options,
)
from windlass.cli.run_filters import run_filters

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.client import BulkResult, Selection

Act = Callable[["Selection", bool], "BulkResult"]
"""Applies a verb to a selection; the second argument is `dry_run`."""


def bulk_command(make: Callable[..., Act]) -> Callable[..., None]:
    """Make a command of what turns a verb's own options into an `Act`."""

    @run_filters
    @click.option("--all", "everything", is_flag=True, help="All runs, without any filter.")
    @click.option("--dry-run", is_flag=True, help="Only count them and show some; change nothing.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @json_option
    @acting_options
    @place_options
    @functools.wraps(make)
    def command(
        place: StorePlace,
        filters: dict[str, Any],
        everything: bool,
        dry_run: bool,
        yes: bool,
        as_json: bool,
        **options: Any,
    ) -> None:
        act = make(**options)
        if everything and filters:
            raise click.UsageError("Give filters or --all, not both.")
        if not everything and not filters:
            raise click.UsageError("Give a filter, such as --job, or --all if you mean all runs.")
        apply_to_selection(place.store(), filters, act, dry_run, ask=not yes, as_json=as_json)

    return command


def apply_to_selection(
    app: "Windlass",
    filters: dict[str, Any],
    act: Act,
    dry_run: bool,
    *,
    ask: bool,
    as_json: bool,
) -> None:
    """Count, ask if a person is there to answer, act, and print what was done."""
    from windlass.cli.output import to_json

    selection = app.select(everything=True, **filters)
    asking = ask and interactive()
    tried = act(selection, True) if dry_run or asking else None
    if tried is not None and not dry_run and tried.done and not _confirmed(tried):
        click.echo("windlass: Nothing was done.", err=True)
        click.get_current_context().exit(1)
    result = tried if tried is not None and dry_run else act(selection, False)
    if as_json:
        click.echo(to_json(result.to_dict(), indent=2))
    else:
        print_result(app, result)
    if not result.matched:
        if not as_json:
            click.echo("windlass: No runs match.", err=True)
        click.get_current_context().exit(1)
    if not result.done:
        click.get_current_context().exit(4)


def print_result(app: "Windlass", result: "BulkResult") -> None:
    """Say how many runs there were, and why some were left out."""
    from windlass.cli.failures import sentence
    from windlass.cli.runs import print_runs
    from windlass.domain.bulk import BULK_VERBS

    if not result.matched:
        return
    if result.dry_run:
        print_runs(result.sample, app.sources.now(), "")
    would = "would be " if result.dry_run else ""
    click.echo(f"{_runs(result.done)} {would}{BULK_VERBS[result.verb].done}")
    for reason, count in sorted(result.refused.items()):
        click.echo(f"{_runs(count)} {'would be ' if result.dry_run else ''}left out: {reason}")
    for error in result.errors.values():
        click.echo(f"windlass: {sentence(error)}", err=True)


def interactive() -> bool:
    """Whether a person is there to answer."""
    return sys.stdin.isatty()


def _confirmed(tried: "BulkResult") -> bool:
    question = f"{tried.verb.title()} {_runs(tried.done)}?"
    return bool(click.confirm(question, err=True))


def _runs(count: int) -> str:
    return f"{count:,} {'run' if count == 1 else 'runs'}"


@click.command
@click.option("--reason", metavar="TEXT", help="Kept with the runs, and shown with them.")
@bulk_command
def cancel(reason: str | None) -> Act:
    """End all runs that the filters select; ask those that run to end.

    Without --status these are all that have not ended.

    \b
    windlass runs cancel --job send_welcome --dry-run
    windlass runs cancel --tag import-7 --reason "wrong file"
    """
    return lambda selection, dry_run: selection.cancel(reason=reason, dry_run=dry_run)


@click.command
@click.option("--reason", metavar="TEXT", help="Kept in the history of the runs.")
@bulk_command
def pause(reason: str | None) -> Act:
    """Stop all runs for now that the filters select; running ones stop at their next step.

    Without --status these are all that have not ended.

    \b
    windlass runs pause --job import_orders --reason "the shop is down"
    """
    return lambda selection, dry_run: selection.pause(reason=reason, dry_run=dry_run)


@click.command
@bulk_command
def resume() -> Act:
    """Let all paused runs go on that the filters select.

    \b
    windlass runs resume --job import_orders
    """
    return lambda selection, dry_run: selection.resume(dry_run=dry_run)


@click.command
@click.option("--reason", metavar="TEXT", help="Kept with the runs, and shown with them.")
@bulk_command
def terminate(reason: str | None) -> Act:
    """End all runs now that the filters select; running ones lose their leases.

    Without --status these are all that have not ended. `windlass runs cancel` lets handlers clean
    up.
    """
    return lambda selection, dry_run: selection.terminate(reason=reason, dry_run=dry_run)


@click.command
@click.option("--from", "step", metavar="STEP", help="Keep what came before this step or phase.")
@bulk_command
def restart(step: str | None) -> Act:
    """Let all runs begin anew that the filters select.

    Without --status these are the dead letters: failed, and neither retried nor discarded.
    """
    return lambda selection, dry_run: selection.restart(step=step, dry_run=dry_run)


@click.command
@click.option(
    "--max-attempts", metavar="N", type=int, help="How many failures end each, counted anew."
)
@bulk_command
def retry(max_attempts: int | None) -> Act:
    """Run all runs again that the filters select, each with a fresh budget of attempts.

    Without --status these are the dead letters: failed runs that nobody has retried or discarded.

    \b
    windlass runs retry --job send_welcome --error ConnectionError
    windlass runs retry --status canceled --tag import-7
    """
    return lambda selection, dry_run: selection.retry(max_attempts=max_attempts, dry_run=dry_run)


@click.command
@click.option(
    "--at", metavar="TIME", callback=moment, help="ISO 8601; local time unless it names a zone."
)
@click.option("--delay", metavar="DURATION", callback=duration, help="In so long, from now.")
@bulk_command
def reschedule(at: datetime | None, delay: float | None) -> Act:
    """Move all runs that the filters select to another time.

    Without --status these are the runs that wait. Failed and canceled ones, if you name their
    status, are run again at that time.

    \b
    windlass runs reschedule --queue slow --delay 1h
    """
    if (at is None) == (delay is None):
        raise click.UsageError("Give either --at or --delay.")
    return lambda selection, dry_run: selection.reschedule(at=at, delay=delay, dry_run=dry_run)


@click.command
@click.option("--priority", metavar="N", type=int, help="Larger is more urgent; 0 is usual.")
@click.option("--to-queue", metavar="NAME", help="Move them to this queue.")
@bulk_command
def reprioritize(priority: int | None, to_queue: str | None) -> Act:
    """Change the priority or the queue of all runs that the filters select and that wait.

    \b
    windlass runs reprioritize --job resize --priority -5
    windlass runs reprioritize --queue main --tag import-7 --to-queue slow
    """
    if priority is None and to_queue is None:
        raise click.UsageError("Give --priority, --to-queue, or both.")
    return lambda selection, dry_run: selection.reprioritize(
        priority=priority, queue=to_queue, dry_run=dry_run
    )


@click.command
@functools.partial(change_options, tag="--set-tag")
@bulk_command
def change(changes: dict[str, Any]) -> Act:
    """Change the tags, timeout, expiry or deadline of all waiting runs that the filters select.

    \b
    windlass runs change --job resize --deadline 2h
    windlass runs change --queue slow --expires none --yes
    """
    if not changes:
        raise click.UsageError("Say what is to change, e.g. --expires or --deadline.")
    return lambda selection, dry_run: selection.change(dry_run=dry_run, **changes)


@click.command
@bulk_command
def discard() -> Act:
    """Take all failed runs that the filters select off the dead letters, for good.

    \b
    windlass runs discard --job send_welcome --until 30d
    """
    return lambda selection, dry_run: selection.discard(dry_run=dry_run)


COMMANDS = {
    "cancel": cancel,
    "pause": pause,
    "resume": resume,
    "terminate": terminate,
    "restart": restart,
    "retry": retry,
    "reschedule": reschedule,
    "reprioritize": reprioritize,
    "change": change,
    "discard": discard,
}
