"""`windlass migrate`: brings the database's schema up to date."""

import click

from windlass.cli.options import StorePlace, place_options


@click.command
@click.option("--check", is_flag=True, help="Change nothing; exit with 5 if it is not up to date.")
@place_options
def migrate(place: StorePlace, check: bool) -> None:
    """Bring the database's schema up to date.

    Safe to repeat, and safe to run from several places at once. SQLite files are brought up to
    date by whoever opens them; on PostgreSQL, run this before starting a new version. It also makes
    functions anew that somebody dropped or changed.
    """
    from windlass.errors import SchemaMismatch

    app = place.store(existing=check)
    if check:
        found, needed = app.store.schema_version()
        if found != needed:
            raise SchemaMismatch(found or None, needed)
        if outdated := app.store.outdated():
            more = f" and {len(outdated) - 1} more" * (len(outdated) > 1)
            raise SchemaMismatch(found, needed, "functions", outdated[0] + more)
        click.echo(f"{app.store.place}: up to date ({needed})")
        return
    before, after, mended = app.migrate()
    told = f"up to date ({after})" if before == after else f"schema {before} → {after}"
    click.echo(f"{app.store.place}: {told}")
    for name in mended:
        click.echo(f"mended {name}")
