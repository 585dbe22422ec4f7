"""`windlass signal`: sends a run what it waits for."""

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.arguments import payload_arguments
from windlass.cli.options import StorePlace, acting_options, json_option, place_options, whole_id

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.client import Run
    from windlass.domain.step import Signal


@click.command
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@payload_arguments
@click.option(
    "--key", metavar="TEXT", help="Send nothing if a signal of this name and key was sent before."
)
@json_option
@acting_options
@place_options
def signal(
    place: StorePlace, run_id: str, name: str, payload: object, key: str | None, as_json: bool
) -> None:
    """Send RUN the signal NAME, which its handler awaits by `ctx.wait_for`.

    The payload is JSON of any kind (`-` reads it from standard input, `@FILE` from a file), or
    NAME=VALUE for each member of an object, or both; without one it is null. A run that waits for
    the signal goes on at once. Otherwise the signal is kept until the run asks for it. A payload
    that begins with a minus goes after `--`.

    \b
    windlass signal 0197c0de-... paid amount=7 --key invoice-1
    windlass signal 0197c0de-... approved true
    """
    from windlass.cli.output import to_json

    app = place.store()
    run = app.get(whole_id(app, run_id))
    waited = run.status == "waiting"
    sent = _send(app, run.id, name, payload, key)
    run.refresh()
    if as_json:
        found = {"run": run.id, "status": run.status.value, "created": sent.created}
        click.echo(to_json(found | signal_dict(sent), indent=2))
    else:
        click.echo(f"{run.id} {_told(sent, run, waited=waited)}")


def signal_dict(signal: "Signal") -> dict[str, Any]:
    """A signal as plain JSON values."""
    from windlass.codec import decode, instant_text

    return {
        "number": signal.number,
        "name": signal.name,
        "at": instant_text(signal.at),
        "key": signal.key,
        "payload": decode(signal.payload),
        "taken_by": signal.taken_by,
    }


def _send(app: "Windlass", run_id: str, name: str, payload: object, key: str | None) -> "Signal":
    from windlass.errors import BadOption

    try:
        return app.signal(run_id, name, payload, key=key)
    except BadOption as error:
        if error.option != "signal":
            raise
        raise click.BadParameter(error.why, param_hint="'NAME'") from None


def _told(sent: "Signal", run: "Run", *, waited: bool) -> str:
    """What came of it, in a few words."""
    from windlass.cli.output import one_line

    name = one_line(sent.name)
    if not sent.created:
        key = one_line(sent.key or "")
        return f"nothing sent: {name} with key {key} is known, as signal {sent.number}"
    said = f"{name} sent, as signal {sent.number}"
    if waited and run.status != "waiting":
        return f"{said}: the run goes on"
    return f"{said}: the run takes it when it asks for it"
