"""The schemas: the same tables and columns in both stores, and only values that exist."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import apsw
import psycopg
import pytest

from tests.conformance.places import KINDS, TABLES, VIEWS
from windlass.domain.event import EFFECTS, AttemptOutcome
from windlass.domain.pause import PauseKind
from windlass.domain.scheduling.rows import Overlap, ScheduleOrigin, SlotOutcome
from windlass.domain.states import FINISHED, Failure, Intent, Status
from windlass.domain.step import StepState
from windlass.sources import Sources
from windlass.store.queries import load_migrations
from windlass.store.sqlite.store import SqliteStore

CHECKED: Mapping[tuple[str, str], set[str]] = {
    ("runs", "status"): {status.value for status in FINISHED},
    ("runs", "failure"): {failure.value for failure in Failure},
    ("timers", "why"): {"delay", *(effect.wait for effect in EFFECTS.values() if effect.wait)},
    ("steps", "state"): {state.value for state in StepState},
    ("leases", "intent"): {intent.value for intent in Intent} - {Intent.OTHER.value},
    ("attempt_rows", "outcome"): {outcome.value for outcome in AttemptOutcome},
    ("failures", "status"): {Status.FAILED.value, Status.CANCELED.value},
    ("schedules", "overlap"): {overlap.value for overlap in Overlap},
    ("schedules", "origin"): {origin.value for origin in ScheduleOrigin},
    ("schedule_slots", "outcome"): {outcome.value for outcome in SlotOutcome},
    ("pauses", "kind"): {kind.value for kind in PauseKind},
}


@pytest.mark.parametrize("store", [kind.name for kind in KINDS])
def test_columns_take_exactly_the_values_that_exist(store: str) -> None:
    text = "\n".join(script.text for script in load_migrations(store))
    found = {}
    tables = re.compile(r"create table (?:windlass\.)?(\w+) \((.*?)\n\)", re.DOTALL)
    for table, body in tables.findall(text):
        for column, values in re.findall(r"check \((\w+) in\s*\(([^)]*)\)", body):
            found[table, column] = set(re.findall(r"'(\w+)'", values))

    assert {where: found[where] for where in found if where[0] in TABLES} == CHECKED


def test_both_stores_have_the_same_tables_and_columns(pg_database: str, tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    with SqliteStore(path, sources=Sources.system()) as store:
        store.migrate()
    file = apsw.Connection(str(path))
    in_file = {
        table: [row[1] for row in file.execute(f"pragma table_info({table})")]
        for table in (*TABLES, *VIEWS)
    }
    file.close()
    with psycopg.connect(pg_database) as conn:
        rows = conn.execute(
            "select table_name, column_name from information_schema.columns "
            "where table_schema = 'windlass' order by table_name, ordinal_position"
        ).fetchall()
    in_server = {
        table: [name for owner, name in rows if owner == table] for table in (*TABLES, *VIEWS)
    }

    # With one writer at a time, the number of a page is its place in the feed.
    assert sorted([*in_file.pop("pages"), "moment"]) == sorted(in_server.pop("pages"))
    assert in_file == in_server


def test_functions_that_pin_their_plans_keep_the_compiler_out(pg_database: str) -> None:
    with psycopg.connect(pg_database) as conn:
        rows = conn.execute(
            "select proname, proconfig from pg_proc "
            "where pronamespace = 'windlass'::regnamespace and proconfig is not null"
        ).fetchall()
    pinned = {name: set(found) for name, found in rows if any("enable_" in x for x in found)}

    # Before PostgreSQL 18 a plan with something switched off costs 1e10, and that is compiled.
    assert [name for name, found in pinned.items() if "jit=off" not in found] == []
    assert "lease_heads" in pinned


def test_no_second_index_can_serve_the_lookup_by_primary_key(pg_database: str) -> None:
    with psycopg.connect(pg_database) as conn:
        rows = conn.execute(
            "select i.indexrelid::regclass::text from pg_index i "
            "join pg_index k on k.indrelid = i.indrelid and k.indisprimary "
            "join pg_class c on c.oid = i.indrelid and c.relnamespace = 'windlass'::regnamespace "
            "where not i.indisprimary and i.indpred is null "
            "and i.indkey::int2[] && k.indkey::int2[]"
        ).fetchall()

    # On a table with next to nothing in it both look alike, and a plan is kept. An index with a
    # predicate serves only statements that speak of its own column.
    assert rows == []
