"""A drain while somebody's transaction keeps PostgreSQL from cleaning up.

An open snapshot pins `xmin`: whatever is deleted or updated after it stays where it was, for vacuum
and for the quick clean-up of a page alike. A queue deletes a row for each run, so this is what
usually ruins one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from bench.ours import Bench


async def drain(bench: Bench, url: str, count: int) -> float:
    """Runs per second beside a snapshot that was taken before the first of them was claimed."""
    bench.enqueue(count, 1000)
    with snapshot(url):
        rate, _ = await bench.drain_what_waits(count)
    return rate


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """Hold a snapshot."""
    with psycopg.connect(url) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select 1")
        yield
