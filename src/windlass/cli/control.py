"""`windlass cancel` and `windlass retry`: what operators do to single runs."""

from collections.abc import Callable, Iterable

import click

from windlass.cli.options import Place, place_options


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Kept with the run, and told to its handler.")
@place_options
def cancel(place: Place, run_ids: tuple[str, ...], reason: str | None) -> None:
    """End runs that have not started; ask those that run to end.

    A handler that runs is told within seconds: a third of the worker's lease at most.
    """
    app = place.store()

    def end(run_id: str) -> str:
        run = app.cancel(run_id, reason=reason)
        return "canceled" if run.status.finished else "asked to end"

    one_by_one(run_ids, end)


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option("--max-attempts", metavar="N", type=int, help="So many attempts, from now on.")
@place_options
def retry(place: Place, run_ids: tuple[str, ...], max_attempts: int | None) -> None:
    """Run failed or canceled runs again, each with its input and a fresh budget of attempts."""
    app = place.store()
    one_by_one(run_ids, lambda run: app.retry(run, max_attempts=max_attempts).status.value)


def one_by_one(run_ids: Iterable[str], act: Callable[[str], str]) -> None:
    """Act on each run and say what came of it; a run that refuses does not spare the others."""
    from windlass.cli.failures import exit_code, tell
    from windlass.errors import ConflictError, NotFound

    code = 0
    for run_id in run_ids:
        try:
            click.echo(f"{run_id} {act(run_id)}")
        except (ConflictError, NotFound) as error:
            tell(error)
            code = code or exit_code(error)
    click.get_current_context().exit(code)
