"""SQLite alone, writing the rows that we write: the mark to measure by."""

import time
from itertools import islice

import apsw

from bench.raw_postgres import PAYLOAD, batches
from windlass.sources import Sources


def enqueue_one_by_one(path: str, count: int) -> float:
    """Runs per second, one transaction each."""
    conn = _open(path)
    rows = _rows(count)
    began = time.perf_counter()
    for row in rows:
        conn.execute("begin immediate")
        _insert(conn, [row])
        conn.execute("commit")
    elapsed = time.perf_counter() - began
    conn.close()
    return count / elapsed


def enqueue_bulk(path: str, count: int, batch: int) -> float:
    """Runs per second, in batches."""
    conn = _open(path)
    rows = iter(_rows(count))
    began = time.perf_counter()
    for size in batches(count, batch):
        conn.execute("begin immediate")
        _insert(conn, list(islice(rows, size)))
        conn.execute("commit")
    elapsed = time.perf_counter() - began
    conn.close()
    return count / elapsed


def drain(path: str, count: int, batch: int = 500) -> float:
    """Runs per second: claim a batch and complete the one before, in one transaction."""
    enqueue_bulk(path, count, 1000)
    conn = _open(path)
    held: list[tuple[bytes]] = []
    began = time.perf_counter()
    while True:
        conn.execute("begin immediate")
        _complete(conn, held)
        held = _claim(conn, batch)
        conn.execute("commit")
        if not held:
            break
    elapsed = time.perf_counter() - began
    conn.close()
    return count / elapsed


def _open(path: str) -> apsw.Connection:
    conn = apsw.Connection(path)
    conn.execute("pragma journal_mode=wal; pragma synchronous=full; pragma cache_size=-64000")
    return conn


def _rows(count: int) -> list[tuple[bytes]]:
    ids = Sources.system()
    return [(bytes.fromhex(ids.new_id().replace("-", "")),) for _ in range(count)]


def _insert(conn: apsw.Connection, ids: list[tuple[bytes]]) -> None:
    conn.executemany(
        "insert into runs (tenant, id, job, queue, priority, input, created_at, scheduled_for) "
        "values ('default', ?, 'noop', 'default', 0, ?, 1, 1)",
        [(blob, PAYLOAD) for (blob,) in ids],
    )
    conn.executemany(
        "insert into ready (tenant, id, job, queue, rank, ready_at, attempt, failures, "
        "crash_count, token, seq) values ('default', ?, 'noop', 'default', 0, 1, 0, 0, 0, 0, 1)",
        ids,
    )
    _page(conn, "run.enqueued", 1, 0, ids)


def _claim(conn: apsw.Connection, batch: int) -> list[tuple[bytes]]:
    ids = [
        (row[0],)
        for row in conn.execute(
            "select q.id, r.input from ready q join runs r on r.tenant = q.tenant and r.id = q.id "
            "where q.queue = 'default' order by q.rank, q.ready_at, q.id limit ?",
            (batch,),
        )
    ]
    conn.executemany("delete from ready where tenant = 'default' and id = ?", ids)
    conn.executemany(
        "insert into leases (tenant, id, job, queue, rank, worker_no, claim_no, started_at, "
        "attempt, failures, crash_count, token, seq, started_seq) "
        "values ('default', ?, 'noop', 'default', 0, 1, 1, 1, 1, 0, 0, 1, 2, 2)",
        ids,
    )
    _page(conn, "run.started", 2, 1, ids)
    return ids


def _complete(conn: apsw.Connection, ids: list[tuple[bytes]]) -> None:
    conn.executemany("delete from leases where tenant = 'default' and id = ?", ids)
    conn.executemany(
        "update runs set status = 'succeeded', attempt = 1, failures = 0, crash_count = 0, "
        "token = 1, seq = 3, started_seq = 2, started_at = 1, finished_at = 2, worker_no = 1 "
        "where tenant = 'default' and id = ?",
        ids,
    )
    _page(conn, "run.succeeded", 3, 1, ids)


def _page(
    conn: apsw.Connection, kind: str, seq: int, attempt: int, ids: list[tuple[bytes]]
) -> None:
    if ids:
        conn.execute(
            "insert into pages (at, tenant, type, seq, attempt, subjects) "
            "values (1, 'default', ?, ?, ?, ?)",
            (kind, seq, attempt, b"".join(blob for (blob,) in ids)),
        )
