"""`windlass change`, for runs that wait, and `windlass run-again`, for one that has ended."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import click

from windlass.cli.control import one_by_one
from windlass.cli.options import (
    StorePlace,
    acting_options,
    duration,
    json_object,
    json_option,
    moment,
    moment_or_duration,
    place_options,
    whole_id,
)

NOTHING = "none"
"""What takes a value away."""


def or_nothing(
    read: Callable[[click.Context, click.Parameter, str | None], Any],
) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Read a value, or the word that takes it away, which stays as it is."""

    @wraps(read)
    def read_either(context: click.Context, option: click.Parameter, value: str | None) -> Any:
        return NOTHING if value == NOTHING else read(context, option, value)

    return read_either


def change_options(command: Callable[..., Any], *, tag: str = "--tag") -> Callable[..., Any]:
    """Add the options that say what is to change; the command gets them as `changes`."""

    @click.option(
        tag, "tags", metavar="TEXT", multiple=True, help="Instead of its tags. Repeatable."
    )
    @click.option("--no-tags", is_flag=True, help="Take its tags away.")
    @click.option(
        "--timeout",
        metavar="DURATION|none",
        callback=or_nothing(duration),
        help="How long one attempt may take; none: as the job says.",
    )
    @click.option(
        "--expires",
        metavar="DURATION|TIME|none",
        callback=or_nothing(moment_or_duration),
        help="Fail it if it has not started by then.",
    )
    @click.option(
        "--deadline",
        metavar="DURATION|TIME|none",
        callback=or_nothing(moment_or_duration),
        help="Fail it if it is not done by then.",
    )
    @wraps(command)
    def with_changes(*args: Any, tags: tuple[str, ...], no_tags: bool, **kwargs: Any) -> Any:
        if tags and no_tags:
            raise click.UsageError(f"Give {tag} or --no-tags, not both.")
        times = {name: kwargs.pop(name) for name in ("timeout", "expires", "deadline")}
        changes = {
            name: None if value == NOTHING else value
            for name, value in times.items()
            if value is not None
        }
        if tags or no_tags:
            changes["tags"] = tags
        return command(*args, changes=changes, **kwargs)

    return with_changes


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--input", "input_", metavar="JSON", callback=json_object, help="All arguments, as an object."
)
@change_options
@acting_options
@place_options
def change(
    place: StorePlace,
    run_ids: tuple[str, ...],
    input_: dict[str, Any] | None,
    changes: dict[str, Any],
) -> None:
    """Change runs that wait: their input, tags, timeout, expiry or deadline.

    Each keeps its place in the queue and its time. A running or ended run is refused.

    \b
    windlass change 0197c0de-... --input '{"user_id": 8}'
    windlass change 0197c0de-... --tag import-8 --deadline 2h --expires none
    """
    if input_ is not None:
        changes["input"] = input_
    if not changes:
        raise click.UsageError("Say what is to change, e.g. --input or --deadline.")
    app = place.store()

    def act(run_id: str) -> str:
        return f"{app.change(run_id, **changes).status.value}, changed"

    one_by_one(run_ids, act, partial(whole_id, app))


@click.command("run-again")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--input", "input_", metavar="JSON", callback=json_object, help="Other arguments, all of them."
)
@click.option("--delay", metavar="DURATION", callback=duration, help="In so long, from now.")
@click.option(
    "--at", metavar="TIME", callback=moment, help="ISO 8601; local time unless it names a zone."
)
@click.option("--key", metavar="TEXT", help="Its key; that of the old run is not taken over.")
@json_option
@acting_options
@place_options
def run_again(
    place: StorePlace, run_id: str, input_: dict[str, Any] | None, as_json: bool, **options: Any
) -> None:
    """Make a new run like RUN, which has ended, and print its id.

    It has the same job, input, queue, priority, tags and metadata. RUN stays as it is.

    \b
    windlass run-again 0197c0de-...
    windlass run-again 0197c0de-... --input '{"user_id": 8}'
    """
    from windlass.cli.output import to_json

    app = place.store()
    given = {name: value for name, value in options.items() if value is not None}
    run = app.run_again(whole_id(app, run_id), input=input_, **given)
    click.echo(to_json(run.to_dict(), indent=2) if as_json else run.id)
