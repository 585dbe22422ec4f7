"""Is everything in the schema as the files make it, and nobody else's?"""

from collections.abc import Iterator, Mapping

from windlass.domain.checkup import Finding, counted, error, fine, warning
from windlass.store.checks import Check
from windlass.store.postgres.checks.asking import Asking
from windlass.store.postgres.expected import Expected, expected
from windlass.store.postgres.naming import in_schema
from windlass.store.postgres.routines import differences, files_checksum

_MOST = 5
_MIGRATE = "Run `windlass migrate`, which makes functions anew."


def checks(ask: Asking) -> Iterator[Check]:
    """Functions, tables, and whose they are."""
    yield Check(name="functions", look=lambda _: _functions(ask))
    yield Check(name="tables", look=lambda _: _tables(ask))
    yield Check(name="owners", look=lambda _: _owners(ask))


def _functions(ask: Asking) -> Iterator[Finding]:
    with ask.settled() as settled:
        there: dict[str, str] = dict(settled.rows("installed_routines"))
        recorded = settled.rows("recorded_routines")
        public = [name for (name,) in settled.rows("public_routines")]
    known = {name: fingerprint for name, fingerprint, *_ in recorded}
    told = [*_damage(there, known), *_open(public)]
    if {checksum for *_, checksum in recorded} != {files_checksum()}:
        told.append(warning("The functions are not those of this Windlass.", _MIGRATE))
    yield from told or [fine(f"All {len(known)} functions are those of this Windlass.")]


def _damage(there: Mapping[str, str], known: Mapping[str, str]) -> Iterator[Finding]:
    wrong = differences(there, known)
    missing = [name for name in wrong if name not in there]
    added = [name for name in wrong if name not in known]
    changed = [name for name in wrong if name in there and name in known]
    if missing:
        yield error(f"{counted(len(missing), 'function')} missing: {_some(missing)}.", _MIGRATE)
    if changed:
        text = f"{counted(len(changed), 'function')} changed by somebody: {_some(changed)}."
        yield error(text, _MIGRATE)
    if added:
        text = f"{counted(len(added), 'function')} in the schema not Windlass's: {_some(added)}."
        yield warning(text, "Run `windlass migrate`, which drops what is not its own.")


def _open(public: list[str]) -> Iterator[Finding]:
    if public:
        yield warning(
            f"Everybody may call {counted(len(public), 'function')}: {_some(public)}.",
            "Run `windlass migrate`, which revokes that.",
        )


def _tables(ask: Asking) -> Iterator[Finding]:
    wanted = expected()
    columns: dict[str, set[str]] = {}
    for table, column in ask.rows("schema_columns"):
        columns.setdefault(table, set()).add(column)
    valid: dict[str, bool] = dict(ask.rows("schema_indexes"))
    triggers = {name for (name,) in ask.rows("schema_triggers")}
    told = [
        *_missing_columns(ask.schema, wanted, columns),
        *_bad_indexes(ask.schema, wanted, columns, valid),
        *_missing_triggers(ask.schema, wanted, triggers),
    ]
    yield from told or [
        fine(f"All {len(wanted.columns)} tables are there, and {len(wanted.indexes)} indexes.")
    ]


def _missing_columns(
    schema: str, wanted: Expected, there: Mapping[str, set[str]]
) -> Iterator[Finding]:
    restore = "Restore it from a backup; nothing that ran since can be made up."
    for table, columns in wanted.columns.items():
        if table not in there:
            yield error(f"The table {schema}.{table} is missing.", restore)
            continue
        for column in sorted(columns - there[table]):
            yield error(f"The column {column} of {schema}.{table} is missing.", restore)


def _bad_indexes(
    schema: str, wanted: Expected, tables: Mapping[str, set[str]], valid: Mapping[str, bool]
) -> Iterator[Finding]:
    for name, make in wanted.indexes.items():
        if name not in valid and name.removesuffix("_pkey") in {name, *tables}:
            advice = (
                f"Make it again: {in_schema(make, schema)}"
                if make
                else "Restore the table from a backup."
            )
            yield error(f"The index {name} is missing: calls become slow, or repeat work.", advice)
        elif not valid.get(name, True):
            advice = f"Make it anew: reindex index {schema}.{name}"
            yield error(f"The index {name} is not valid: nothing uses it.", advice)


def _missing_triggers(schema: str, wanted: Expected, there: set[str]) -> Iterator[Finding]:
    for name, make in wanted.triggers.items():
        if name not in there:
            yield error(
                f"The trigger {name} is missing or switched off: the feed misses events.",
                f"Drop it if it is there, and make it again: {in_schema(make, schema)}",
            )


def _owners(ask: Asking) -> Iterator[Finding]:
    with ask.settled() as settled:
        foreign = settled.rows("foreign_objects")
        creators = [name for (name,) in settled.rows("creators")]
    for what, owner, ours in foreign[:_MOST]:
        yield error(
            f"The {what} belongs to {owner} and the schema to {ours}, whose rights its code gets.",
            f"Drop it, or have its owner changed to {ours}; then look at what {owner} did.",
        )
    if creators:
        yield error(
            f"{_some(creators)} may create things in the schema, and Windlass's functions would "
            "call them with the rights of their owner.",
            "Run `windlass migrate`, which revokes that.",
        )
    if not foreign and not creators:
        yield fine("All of it belongs to one role, and nobody else may add to it.")


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:_MOST])}{', …' if len(names) > _MOST else ''}"
