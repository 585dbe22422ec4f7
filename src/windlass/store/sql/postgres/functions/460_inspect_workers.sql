-- All workers known, dead ones not yet reaped included, the oldest first: how many runs each holds,
-- and the p_most that started first, as a JSON array. seen_at is the time of this look.
create or replace function windlass.inspect_workers(p_most integer default 10)
returns table (
  id text, host text, pid integer, version text, queues text[], jobs text[], seats integer,
  started_at timestamptz, renewed_at timestamptz, alive_until timestamptz,
  blocked_since timestamptz, blocked_tenant text, blocked_run text,
  seen_at timestamptz, busy bigint, running json
)
language plpgsql stable security definer
set timezone = 'UTC'
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := windlass.now();
begin
  return query
    select w.id, w.host, w.pid, w.version, w.queues, w.jobs, w.seats,
           w.started_at, w.renewed_at, w.alive_until,
           w.blocked_since, w.blocked_tenant, w.blocked_run,
           v_now, h.busy, coalesce(r.running, '[]')
      from windlass.workers w
     cross join lateral (select count(*) as busy from windlass.leases l where l.worker_no = w.worker_no) h
     cross join lateral (select json_agg(row_to_json(x)) as running
                           from (select l.tenant, l.id, l.job, l.queue, l.attempt, l.started_at
                                   from windlass.leases l
                                  where l.worker_no = w.worker_no
                                  order by l.started_at, l.id limit p_most) x) r
     order by w.started_at, w.id;
end
$$;
