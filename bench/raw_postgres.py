"""PostgreSQL alone, writing the rows that we write: the mark to measure by.

Nothing is decided, fenced or validated here, and no row travels to a client while draining.
"""

import threading
import time
from collections.abc import Iterator, Sequence

import psycopg

from windlass.sources import Sources

PAYLOAD = '{"user_id": 7, "template": "welcome", "locale": "en", "note": "' + "x" * 40 + '"}'

_ONE = """
with r as (
  insert into windlass.runs (tenant, id, job, queue, priority, input, created_at, scheduled_for)
  values ('default', %(id)s, 'noop', 'default', 0, %(input)s, now(), now()) returning tenant, id
), q as (
  insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                              attempt, failures, crash_count, token, seq)
  select tenant, id, 'noop', 'default', 0, now(), 0, 0, 0, 0, 1 from r
)
insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
select 1, now(), 1, 0, tenant, 'run.enqueued', array[id] from r
"""

_MANY = """
with r as (
  insert into windlass.runs (tenant, id, job, queue, priority, input, created_at, scheduled_for)
  select 'default', x.id, 'noop', 'default', 0, %(input)s::json, now(), now()
    from unnest(%(ids)s::uuid[]) as x(id) returning tenant, id
), q as (
  insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                              attempt, failures, crash_count, token, seq)
  select tenant, id, 'noop', 'default', 0, now(), 0, 0, 0, 0, 1 from r
)
insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
select 1, now(), 1, 0, 'default', 'run.enqueued', array_agg(id) from r
"""

_DRAIN = """
create or replace procedure windlass.raw_drain(p_batch integer) language plpgsql as $$
declare
  v_ids uuid[] := '{}';
begin
  loop
    with gone as (
      delete from windlass.leases l where l.tenant = 'default' and l.id = any (v_ids) returning l.*
    ), ended as (
      update windlass.runs r
         set status = 'succeeded', attempt = 1, failures = 0, crash_count = 0, token = 1,
             seq = 3, started_seq = 2, started_at = now(), finished_at = now(), worker_no = 1
       where r.tenant = 'default' and r.id = any (v_ids)
    )
    insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
    select 1, now(), 3, 1, 'default', 'run.succeeded', array_agg(id)
      from gone having count(*) > 0;

    with picked as materialized (
      select r.ctid as place from windlass.ready r where r.queue = 'default'
       order by r.rank, r.ready_at, r.id limit p_batch for update skip locked
    ), taken as (
      delete from windlass.ready r where r.ctid = any (array (select place from picked))
      returning r.*
    ), leased as (
      insert into windlass.leases (tenant, id, job, queue, rank, worker_no, claim_no, started_at,
                                   attempt, failures, crash_count, token, seq, started_seq)
      select tenant, id, job, queue, rank, 1, 1, now(), 1, 0, 0, 1, 2, 2 from taken
    ), told as (
      insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
      select 1, now(), 2, 1, 'default', 'run.started', array_agg(id)
        from taken having count(*) > 0
    )
    select coalesce(array_agg(t.id), '{}') into v_ids from taken t
     cross join lateral (select r.input from windlass.runs r
                          where r.tenant = t.tenant and r.id = t.id limit 1) n;
    commit;
    exit when cardinality(v_ids) = 0;
  end loop;
end
$$
"""


def enqueue_one_by_one(url: str, count: int) -> float:
    """Runs per second, one transaction each."""
    ids = Sources.system()
    with psycopg.connect(url, autocommit=True) as conn:
        began = time.perf_counter()
        for _ in range(count):
            conn.execute(_ONE, {"id": ids.new_id(), "input": PAYLOAD}, prepare=True)
        return count / (time.perf_counter() - began)


def enqueue_bulk(url: str, count: int, batch: int) -> float:
    """Runs per second, in batches."""
    ids = Sources.system()
    with psycopg.connect(url, autocommit=True) as conn:
        began = time.perf_counter()
        for size in batches(count, batch):
            names = "{" + ",".join(ids.new_id() for _ in range(size)) + "}"
            conn.execute(_MANY, {"ids": names, "input": PAYLOAD}, prepare=True)
        return count / (time.perf_counter() - began)


def drain(url: str, count: int, batch: int = 500, clients: int = 2) -> float:
    """Runs per second, by a procedure in the server."""
    enqueue_bulk(url, count, 1000)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_DRAIN)
    began = time.perf_counter()
    threads = [threading.Thread(target=_drain, args=(url, batch)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.perf_counter() - began)


def _drain(url: str, batch: int) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("call windlass.raw_drain(%s)", (batch,))


def batches(count: int, size: int) -> Iterator[int]:
    """Split a number into batches."""
    for start in range(0, count, size):
        yield min(size, count - start)


def claim_times(url: str, sizes: Sequence[int], rounds: int) -> dict[int, list[float]]:
    """Seconds per claim of so many runs through windlass.claim; what was claimed stays so."""
    found: dict[int, list[float]] = {size: [] for size in sizes}
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("select windlass.register('bench', 3600)")
        for number in range(rounds):
            for size in sizes:
                began = time.perf_counter()
                conn.execute(
                    "select id from windlass.claim('bench', %s, %s, '{noop}', '{default}')",
                    (number, size),
                    prepare=True,
                ).fetchall()
                found[size].append(time.perf_counter() - began)
    return found
