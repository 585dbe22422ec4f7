"""Can the store be reached, and has it the tables that this program knows?"""

from collections.abc import Iterator

from windlass.app import Windlass
from windlass.domain.checkup import Finding, Severity, error, fine, note, sentence
from windlass.errors import StoreError
from windlass.store.checks import Check, Needs


def checks(app: Windlass) -> Iterator[Check]:
    """Those that all others build on."""
    yield Check(name="store", look=lambda _: _store(app), needs=Needs.STORE, gives=Needs.STORE)
    yield Check(
        name="schema",
        look=lambda _: _schema(app),
        needs=Needs.STORE,
        gives=Needs.SCHEMA,
        spoiled_by=Severity.NOTE,  # to look at more would already be the use that migrates
    )


def _store(app: Windlass) -> Iterator[Finding]:
    clock = app.sources.clock
    began = clock.monotonic()
    try:
        app.store.schema_version()
    except StoreError as problem:
        yield error(
            sentence(problem), "Check the URL and the rights, and whether the database is up."
        )
    else:
        yield fine(f"It answers within {(clock.monotonic() - began) * 1000:.0f} ms.")


def _schema(app: Windlass) -> Iterator[Finding]:
    found, needed = app.store.schema_version()
    if found == needed:
        yield fine(f"The schema has version {found}, as this Windlass needs it.")
    elif found == 0:
        yield error("There are no tables of Windlass in it.", "Run `windlass migrate`.")
    elif found < needed:
        text = f"The schema has version {found}, this Windlass needs {needed}."
        if app.store.migrates_itself:
            yield note(f"{text} The next use brings it up to date by itself.", "Back it up first.")
        else:
            yield error(text, "Run `windlass migrate`.")
    else:
        text = f"The schema has version {found}, newer than the {needed} of this Windlass."
        yield error(text, "Upgrade Windlass on this machine.")
