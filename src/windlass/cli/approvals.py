"""`windlass approvals`, `approve` and `reject`: what runs ask people, and their answers."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, json_option, place_options, whole_id

if TYPE_CHECKING:
    from windlass.domain.approval import Approval, OpenApproval


@click.command
@json_option
@place_options
def approvals(place: StorePlace, as_json: bool) -> None:
    """List what runs ask people by `ctx.approval`, and nobody has answered yet.

    Answer by `windlass approve RUN` or `windlass reject RUN`.
    """
    from windlass.cli import output

    app = place.store()
    found, now = app.approvals(), app.sources.now()
    if as_json:
        click.echo(output.to_json([_dict(one) for one in found], indent=2))
        return
    if not found:
        click.echo("No run asks for an approval.")
        return
    rows = [
        (
            one.run,
            output.one_line(one.job),
            output.one_line(one.name),
            output.ago(one.asked_at, now),
            "" if one.expires_at is None else output.ago(one.expires_at, now),
            output.one_line(one.question),
        )
        for one in found
    ]
    titles = ("RUN", "JOB", "NAME", ">ASKED", ">EXPIRES", "QUESTION")
    for line in output.table(titles, rows):
        click.echo(line)


def _answers(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments and options of both answers."""

    @click.argument("run_id", metavar="RUN")
    @click.argument("name", required=False)
    @click.option("--comment", metavar="TEXT", help="Why; the handler sees it.")
    @click.option("--as", "by", metavar="NAME", help="Who answers; otherwise the user of the OS.")
    @json_option
    @place_options
    @functools.wraps(command)
    def answer(place: StorePlace, **given: Any) -> None:
        command(place, **given)

    return answer


@click.command
@_answers
def approve(
    place: StorePlace,
    run_id: str,
    name: str | None,
    comment: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Say yes to what RUN asks by `ctx.approval`.

    NAME says which question, if it asks several. The first answer counts; the same one may be
    given again.

    \b
    windlass approve 0197c0de-... --comment "after lunch"
    windlass approve 0197c0de-... deploy --as ann
    """
    _answer(place, run_id, name, comment, by, approved=True, as_json=as_json)


@click.command
@_answers
def reject(
    place: StorePlace,
    run_id: str,
    name: str | None,
    comment: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Say no to what RUN asks by `ctx.approval`.

    NAME says which question, if it asks several. The first answer counts; the same one may be
    given again.

    \b
    windlass reject 0197c0de-... --comment "not on a Friday"
    """
    _answer(place, run_id, name, comment, by, approved=False, as_json=as_json)


def _answer(
    place: StorePlace,
    run_id: str,
    name: str | None,
    comment: str | None,
    by: str | None,
    *,
    approved: bool,
    as_json: bool,
) -> None:
    from windlass.cli.output import one_line, to_json

    app = place.store()
    run = whole_id(app, run_id)
    verb = app.approve if approved else app.reject
    answer = verb(run, name, by=_who(by), comment=comment)
    if as_json:
        click.echo(to_json({"run": run} | _answer_dict(answer), indent=2))
        return
    click.echo(
        f"{run} {'approved' if answer.approved else 'rejected'}, by {one_line(answer.by or '?')}"
    )


def _who(given: str | None) -> str:
    """Who answers: as told, or else the user of the operating system."""
    from windlass.acting import actor

    return actor() if given is None else given


def _dict(one: "OpenApproval") -> dict[str, Any]:
    from windlass.codec import instant_text

    return {
        "run": one.run,
        "job": one.job,
        "name": one.name,
        "question": one.question,
        "asked_at": instant_text(one.asked_at),
        "expires_at": None if one.expires_at is None else instant_text(one.expires_at),
    }


def _answer_dict(answer: "Approval") -> dict[str, Any]:
    from windlass.codec import instant_text

    return {
        "approved": answer.approved,
        "by": answer.by,
        "comment": answer.comment,
        "at": instant_text(answer.at),
    }
