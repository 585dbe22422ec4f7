"""`windlass dead`: failed runs that nobody has retried or discarded."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import click

from windlass.cli.options import StorePlace, json_option, place_options, whole_id
from windlass.domain.states import Failure

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.client import Run

Action = Literal["summary", "list", "retry", "discard"]

MOST_GROUPED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which dead letters are meant."""

    job: str | None = None
    failure: str | None = None
    error: str | None = None

    @property
    def narrow(self) -> bool:
        """Whether it leaves some out."""
        return self != Choice()

    @property
    def filters(self) -> dict[str, Any]:
        """The same for the application."""
        given = {"job": self.job, "failure": self.failure, "error": self.error}
        return {"dead": True} | {name: each for name, each in given.items() if each is not None}


@click.command
@click.argument(
    "action",
    metavar="[list|retry|discard]",
    type=click.Choice(["summary", "list", "retry", "discard"]),
    default="summary",
)
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--job", metavar="NAME", help="Only runs of this job.")
@click.option(
    "--failure",
    type=click.Choice([failure.value for failure in Failure]),
    help="Only those that failed in this way.",
)
@click.option("--error", metavar="TYPE", help="Only those with an error of this type.")
@click.option("--all", "everything", is_flag=True, help="Retry or discard all of them.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="How many to list, at most 1000.",
)
@json_option
@place_options
def dead(
    place: StorePlace,
    action: Action,
    run_ids: tuple[str, ...],
    job: str | None,
    failure: str | None,
    error: str | None,
    everything: bool,
    yes: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Look at the dead letters: failed runs that nobody has retried or discarded.

    Alone it counts them by job and error; `list` lists them. `retry` runs them again and `discard`
    takes them off the list: those named, those that --job, --failure and --error select, or --all.

    \b
    windlass dead
    windlass dead list --job send_welcome
    windlass dead retry --job send_welcome --error ConnectionError
    """
    choice = Choice(job=job, failure=failure, error=error)
    if action in ("summary", "list"):
        if run_ids or everything or yes:
            raise click.UsageError("RUN, --all and --yes go with retry and discard.")
        look = _summary if action == "summary" else _list
        look(place.store(), choice, limit, as_json)
        return
    if run_ids and (everything or choice.narrow):
        raise click.UsageError("Name runs or select them, not both.")
    if not run_ids and not everything and not choice.narrow:
        raise click.UsageError("Name runs, or give --job, --failure, --error or --all.")
    app = place.store()
    if run_ids:
        _named(app, action, run_ids)
    else:
        _bulk(app, action, choice, ask=everything and not yes, as_json=as_json)


@dataclass(slots=True)
class FailureGroup:
    """Dead letters of one job with one kind of error."""

    latest: "Run"
    count: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The group as JSON has it."""
        error = self.latest.error
        return {
            "job": self.latest.job,
            "failure": self.latest.failure,
            "error": error.type if error is not None else None,
            "count": self.count,
            "latest": self.latest.to_dict()["finished_at"],
            "run": self.latest.id,
        }


def group(found: "Iterable[Run]") -> list[FailureGroup]:
    """Count by job, failure and type of error; the largest group comes first."""
    groups: dict[tuple[str, ...], FailureGroup] = {}
    for run in found:
        kind = run.error.type if run.error is not None else ""
        key = (run.job, run.failure or "", kind)
        groups.setdefault(key, FailureGroup(run)).count += 1
    return sorted(groups.values(), key=lambda g: -g.count)


def _summary(app: "Windlass", choice: Choice, _: int, as_json: bool) -> None:
    from windlass.cli import output
    from windlass.cli.runs import error_text

    groups = group(islice(app.select(**choice.filters), MOST_GROUPED))
    if as_json:
        click.echo(output.to_json([g.to_dict() for g in groups], indent=2))
        return
    if not groups:
        click.echo(_none(choice))
        return
    now = app.sources.now()
    rows = [
        (
            f"{g.count:,}",
            output.one_line(g.latest.job),
            output.paint(g.latest.failure or "", "red"),
            output.ago(g.latest.finished_at or g.latest.updated_at, now),
            g.latest.id,
            error_text(g.latest),
        )
        for g in groups
    ]
    titles = (">COUNT", "JOB", "FAILURE", ">LATEST", "RUN", "ERROR")
    for line in output.table(titles, rows):
        click.echo(line)
    if sum(g.count for g in groups) == MOST_GROUPED:
        click.echo(f"Only the newest {MOST_GROUPED:,} are counted.", err=True)


def _list(app: "Windlass", choice: Choice, limit: int, as_json: bool) -> None:
    from windlass.cli import output
    from windlass.cli.runs import print_runs

    found = app.list(limit=limit, **choice.filters)
    if as_json:
        click.echo(output.to_json([run.to_dict() for run in found], indent=2))
        return
    print_runs(found, app.sources.now(), _none(choice))


def _named(app: "Windlass", action: Action, run_ids: Sequence[str]) -> None:
    from windlass.cli.control import one_by_one
    from windlass.errors import IllegalTransition

    def discard(run_id: str) -> str:
        run = app.get(run_id)
        if not app.discard(run.id):
            status = "discarded" if run.record.discarded_at is not None else run.status.value
            raise IllegalTransition(run.id, status, "discard")
        return "discarded"

    def retry(run_id: str) -> str:
        return app.retry(run_id).status.value

    one_by_one(run_ids, retry if action == "retry" else discard, partial(whole_id, app))


def _bulk(app: "Windlass", action: Action, choice: Choice, *, ask: bool, as_json: bool) -> None:
    from windlass.cli.output import to_json

    selection = app.select(**choice.filters)
    done = "retried" if action == "retry" else "discarded"
    if ask and _interactive() and not _confirmed(action, selection.count()):
        click.echo("windlass: Nothing was done.", err=True)
        click.get_current_context().exit(1)
    result = selection.retry() if action == "retry" else selection.discard()
    others = sum(result.refused.values())
    if as_json:
        click.echo(to_json({done: result.done, "skipped": others}))
    elif result.matched:
        meanwhile = f"; {others:,} had left the list meanwhile" if others else ""
        click.echo(f"{done} {result.done:,} {'run' if result.done == 1 else 'runs'}{meanwhile}")
    if not result.matched:
        click.echo(f"windlass: {_none(choice)}", err=True)
        click.get_current_context().exit(1)


def _confirmed(action: Action, count: int) -> bool:
    letters = "1 dead letter" if count == 1 else f"all {count:,} dead letters"
    question = f"{action.title()} {letters}?"
    return not count or bool(click.confirm(question, err=True))


def _interactive() -> bool:
    return sys.stdin.isatty()


def _none(choice: Choice) -> str:
    return "No dead letters match." if choice.narrow else "There are no dead letters."
