"""The options that select runs, the same wherever runs are listed or acted on."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from windlass.cli.options import before_now, moment_or_duration
from windlass.domain.states import Failure, Status

R = TypeVar("R")

_STATUSES = [status.value for status in Status]


def _statuses(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Read statuses: the option may be repeated, and each may name several with commas."""
    found = tuple(name.strip() for text in value for name in text.split(","))
    for name in found:
        if name not in _STATUSES:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(_STATUSES)}")
    return found


_OPTIONS = (
    click.option(
        "--status",
        metavar="STATUS",
        multiple=True,
        callback=_statuses,
        help=f"Only those in this status; repeatable, or with commas: {', '.join(_STATUSES)}.",
    ),
    click.option("--job", metavar="NAME", help="Only runs of this job."),
    click.option("--queue", metavar="NAME", help="Only runs in this queue."),
    click.option("--tag", metavar="TEXT", help="Only runs with this tag."),
    click.option("--key", metavar="TEXT", help="Only runs that were enqueued with this key."),
    click.option("--schedule", metavar="KEY|ID", help="Only runs of this schedule."),
    click.option(
        "--worker", metavar="NAME", help="Only runs that this worker is running, or ended."
    ),
    click.option(
        "--failure",
        type=click.Choice([failure.value for failure in Failure]),
        help="Only those that failed in this way.",
    ),
    click.option(
        "--error", metavar="TYPE", help="Only those that failed with an error of this type."
    ),
    click.option(
        "--dead", is_flag=True, help="Only failed runs that nobody has retried or discarded."
    ),
    click.option(
        "--since",
        metavar="1h|TIME",
        callback=moment_or_duration,
        help="Only those created since then: a duration, or ISO 8601.",
    ),
    click.option(
        "--until", metavar="1h|TIME", callback=moment_or_duration, help="Created before then."
    ),
    click.option(
        "--finished-since",
        metavar="1h|TIME",
        callback=moment_or_duration,
        help="Only those that ended since then.",
    ),
    click.option(
        "--finished-until",
        metavar="1h|TIME",
        callback=moment_or_duration,
        help="Ended before then.",
    ),
)
_MOMENTS = {
    "since": "created_from",
    "until": "created_to",
    "finished_since": "finished_from",
    "finished_until": "finished_to",
}


def run_filters(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options; the command gets those that were given as `filters`, by their names in
    Python."""

    @functools.wraps(command)
    def with_filters(*args: Any, **given: Any) -> R:
        filters: dict[str, Any] = {}
        for option in _NAMES:
            value = given.pop(option)
            if value is None or value == () or value is False:
                continue
            moment = _MOMENTS.get(option)
            filters[moment or option] = value if moment is None else before_now(value)
        return command(*args, filters=filters, **given)

    for option in reversed(_OPTIONS):
        with_filters = option(with_filters)
    return with_filters


_NAMES = (
    *("status", "job", "queue", "tag", "key", "schedule", "worker", "failure", "error", "dead"),
    *_MOMENTS,
)
