"""The ground that the other tests stand on."""

from __future__ import annotations

import psycopg


def test_postgres_answers_in_a_database_of_the_tests_own(pg_database: str) -> None:
    with psycopg.connect(pg_database) as conn:
        row = conn.execute("select 1, current_database()").fetchone()

        assert row is not None
        assert row[0] == 1
        assert row[1].startswith("wl_test_")
        assert conn.info.server_version >= 150_000


async def test_postgres_answers_on_the_session_loop(pg_database: str) -> None:
    async with await psycopg.AsyncConnection.connect(pg_database) as conn:
        cursor = await conn.execute("select current_setting('server_encoding')")

        assert await cursor.fetchone() == ("UTF8",)
