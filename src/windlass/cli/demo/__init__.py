"""`windlass demo`: a tour of what runs can do, on a database that is thrown away."""

import click


@click.command
@click.option("--once", is_flag=True, help="Leave nothing behind: for a quick check.")
@click.option("--url", metavar="URL", help="Another store than a temporary SQLite file.")
def demo(once: bool, url: str | None) -> None:
    """Watch a tour of what runs can do.

    Three worker processes meet about a dozen kinds of runs, good and bad, one that a schedule
    makes, one whose worker is killed, one that kills its workers, and then a burst of 10,000. The
    exit code is 0 if each ended as it should, else 1. Ctrl-C ends it, and leaves nothing behind.
    """
    from windlass.cli.demo.tour import run_tour

    before = click.get_current_context().find_object(dict) or {}
    url = url or before.get("url")
    if not run_tour(url, keep=not once):
        click.get_current_context().exit(1)
