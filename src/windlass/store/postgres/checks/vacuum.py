"""Are dead rows taken away?"""

from collections.abc import Iterator

from windlass.domain.checkup import Finding, Limits, fine, warning
from windlass.store.checks import Check
from windlass.store.postgres.checks.asking import Asking


def checks(ask: Asking) -> Iterator[Check]:
    """Autovacuum, and what it left."""
    yield Check(name="vacuum", look=lambda limits: _check_vacuum(ask, limits))


def _check_vacuum(ask: Asking, limits: Limits) -> Iterator[Finding]:
    told = [*_settings(ask), *_tables(ask), *_dead(ask, limits)]
    yield from told or [fine("Autovacuum is on, and no table has too many dead rows.")]


def _settings(ask: Asking) -> Iterator[Finding]:
    on, counted = ask.row("vacuum_settings")
    if not (on and counted):
        name = "track_counts" if on else "autovacuum"
        text = f"{name} is off: claims become slower with every run that was ever made."
        yield warning(text, f"Set {name} to on in the server's configuration.")


def _tables(ask: Asking) -> Iterator[Finding]:
    names = [name for (name,) in ask.rows("unvacuumed_tables")]
    if names:
        yield warning(
            f"Autovacuum is off for {', '.join(names)}.",
            f"alter table {ask.schema}.{names[0]} reset (autovacuum_enabled)",
        )


def _dead(ask: Asking, limits: Limits) -> Iterator[Finding]:
    for name, dead, live in ask.rows("dead_rows", limits.dead_rows):
        yield warning(
            f"Table {name} has {dead:,} dead rows beside {live:,} live ones.",
            f"Look for long transactions, then: vacuum {ask.schema}.{name}",
        )
