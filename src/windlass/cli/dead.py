"""`windlass dead`: failed runs that nobody has retried or discarded."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import click

from windlass.cli.options import StorePlace, json_option, place_options
from windlass.domain.states import Failure

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.client import Run

Action = Literal["summary", "list", "retry", "discard"]

MOST_GROUPED = 10_000
_PAGE = 200  # each may carry the tracebacks of all its attempts


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

    def runs(self, app: "Windlass") -> "Iterator[Run]":
        """All of them, newest first."""
        given: dict[str, Any] = {"job": self.job, "failure": self.failure}
        query = {name: value for name, value in given.items() if value is not None}
        while True:
            page = app.list(dead=True, limit=_PAGE, **query)
            yield from (run for run in page if self._has_error(run))
            if len(page) < _PAGE:
                return
            query["before"] = page[-1].id

    def _has_error(self, run: "Run") -> bool:
        kind = run.error.type if run.error is not None else ""
        return self.error is None or self.error in (kind, kind.rpartition(".")[2])


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


def group(found: "Iterator[Run]") -> list[FailureGroup]:
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

    groups = group(islice(choice.runs(app), MOST_GROUPED))
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
    from windlass.cli.runs import run_table

    found = list(islice(choice.runs(app), limit))
    if as_json:
        click.echo(output.to_json([run.to_dict() for run in found], indent=2))
        return
    lines = run_table(found, app.sources.now()) if found else [_none(choice)]
    for line in lines:
        click.echo(line)


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

    one_by_one(run_ids, retry if action == "retry" else discard)


def _bulk(app: "Windlass", action: Action, choice: Choice, *, ask: bool, as_json: bool) -> None:
    from windlass.cli.output import to_json

    ids = [run.id for run in choice.runs(app)]
    done = "retried" if action == "retry" else "discarded"
    if ids and ask and not _confirmed(action, len(ids)):
        click.echo("windlass: Nothing was done.", err=True)
        click.get_current_context().exit(1)
    count = _retry(app, ids) if action == "retry" else _discard(app, ids)
    if as_json:
        click.echo(to_json({done: count, "skipped": len(ids) - count}))
    elif ids:
        others = len(ids) - count
        meanwhile = f"; {others:,} had left the list meanwhile" if others else ""
        click.echo(f"{done} {count:,} {'run' if count == 1 else 'runs'}{meanwhile}")
    if not ids:
        click.echo(f"windlass: {_none(choice)}", err=True)
        click.get_current_context().exit(1)


def _confirmed(action: Action, count: int) -> bool:
    if not _interactive():
        return True
    question = f"{action.title()} all {count:,} dead letters?"
    return bool(click.confirm(question, err=True))


def _interactive() -> bool:
    return sys.stdin.isatty()


def _retry(app: "Windlass", ids: Sequence[str]) -> int:
    from windlass.errors import IllegalTransition, RunNotFound

    count = 0
    for run_id in ids:
        try:
            app.retry(run_id)
        except (IllegalTransition, RunNotFound):
            continue  # somebody else was faster
        count += 1
    return count


def _discard(app: "Windlass", ids: Sequence[str]) -> int:
    pages = (ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE))
    return sum(app.discard(*page) for page in pages)


def _none(choice: Choice) -> str:
    return "No dead letters match." if choice.narrow else "There are no dead letters."
