"""`windlass backup`: a copy of the store while it is in use."""

from pathlib import Path

import click

from windlass.cli.options import StorePlace, place_options


@click.command
@click.argument("destination", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@place_options
def backup(place: StorePlace, destination: Path, force: bool) -> None:
    """Copy a SQLite store to FILE, while workers go on.

    The copy is checked before it gets its name. To go back to it, stop all processes and put it in
    the place of the store's file, without the -wal and -shm files of the old one. PostgreSQL has
    tools of its own: pg_dump for a copy, archiving of its log for every moment.
    """
    app = place.store()
    size = app.store.backup(destination, replace=force)
    click.echo(f"{destination}: {size:,} bytes, and sound")
