"""How many bytes a run takes: in the store while it waits and when it has ended, and in the log.

The input is about 100 bytes, and there is no result. A run's own row is most of it: it has room to
be written a second time in the same page. Nothing has been deleted by retention yet.
"""

from contextlib import closing
from typing import NamedTuple

import apsw
import psycopg

from bench.ours import Bench

_TABLES = """
select sum(pg_total_relation_size(c.oid))::bigint
  from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'r'
"""


class Sizes(NamedTuple):
    """Bytes for each run. The log is PostgreSQL's WAL, full pages after a checkpoint included."""

    waiting: float
    ended: float
    log_enqueue: float | None
    log_drain: float | None


class _Mark(NamedTuple):
    size: int
    log: int = 0  # as it was when we came
    cleaned: int = 0  # after the clean-up that is ours, not the runs'


async def measure(bench: Bench, url: str, count: int) -> Sizes:
    """Enqueue by thousands, then let one worker drain."""
    is_sqlite = url.startswith("sqlite")
    read = _sqlite if is_sqlite else _postgres
    empty = read(url)
    bench.enqueue(count, 1000)
    waiting = read(url)
    await bench.drain_what_waits(count)
    ended = read(url)
    return Sizes(
        (waiting.size - empty.size) / count,
        (ended.size - empty.size) / count,
        None if is_sqlite else (waiting.log - empty.cleaned) / count,
        None if is_sqlite else (ended.log - waiting.cleaned) / count,
    )


def _postgres(url: str) -> _Mark:
    def log() -> int:
        (place,) = conn.execute("select pg_current_wal_insert_lsn() - '0/0'").fetchone() or (0,)
        return int(place)

    with psycopg.connect(url, autocommit=True) as conn:
        came = log()
        conn.execute("vacuum")  # what can be used again is not used up
        (size,) = conn.execute(_TABLES).fetchone() or (0,)
        return _Mark(int(size), came, log())


def _sqlite(url: str) -> _Mark:
    with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as conn:
        pages, free, size = (
            int(str(conn.pragma(name))) for name in ("page_count", "freelist_count", "page_size")
        )
    return _Mark((pages - free) * size)
