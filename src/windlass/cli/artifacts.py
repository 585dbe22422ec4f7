"""`windlass artifacts`: bytes that runs keep outside the database."""

import shutil
import sys
from pathlib import Path

import click

from windlass.cli.options import StorePlace, json_option, place_options, whole_id


@click.group
def artifacts() -> None:
    """List, read and delete the artifacts of runs.

    \b
    windlass artifacts list 0197c0de-...
    windlass artifacts get 0197c0de-... report.csv -o report.csv
    """


@artifacts.command("list")
@click.argument("run_id", metavar="RUN")
@json_option
@place_options
def list_artifacts(place: StorePlace, run_id: str, as_json: bool) -> None:
    """List the artifacts of a run, by name."""
    import msgspec

    from windlass.cli import output

    app = place.store()
    found = app.artifacts.list(whole_id(app, run_id))
    if as_json:
        click.echo(output.to_json([msgspec.to_builtins(each) for each in found], indent=2))
        return
    rows = [
        (output.one_line(each.name), f"{each.size:,}", each.content_type, each.sha256[:12])
        for each in found
    ]
    output.print_listing(("NAME", "BYTES", "TYPE", "SHA256"), rows, "It has no artifacts.")


@artifacts.command
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="A file to write.")
@place_options
def get(place: StorePlace, run_id: str, name: str, target: Path | None) -> None:
    """Write an artifact to standard output, or to a file."""
    app = place.store()
    with app.artifacts.open(name, run=whole_id(app, run_id)) as reader:
        if target is None:
            for chunk in reader:
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            return
        partial = target.with_name(f"{target.name}.part")
        with partial.open("wb") as file:
            file.writelines(reader)
    shutil.move(partial, target)  # once the checksum was right
    click.echo(f"Wrote {target}.")


@artifacts.command
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@place_options
def delete(place: StorePlace, run_id: str, name: str) -> None:
    """Forget an artifact and remove its bytes."""
    from windlass.errors import ArtifactNotFound

    app = place.store()
    run = whole_id(app, run_id)
    if not app.artifacts.delete(name, run=run):
        raise ArtifactNotFound(name, run)
    click.echo(f"Deleted {name}.")


@artifacts.command
@click.option("--older-than", metavar="TIME", default="1d", show_default=True, help="Their age.")
@place_options
def sweep(place: StorePlace, older_than: str) -> None:
    """Remove bytes that a crash has left without a row.

    The folder or bucket must belong to this store alone.
    """
    removed = place.store().artifacts.sweep(older_than=older_than)
    click.echo(f"Removed {removed:,}.")
