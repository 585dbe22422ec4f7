-- What is known of runs and schedules, each with one attempt: the two arrays have an item for each. Those
-- that are gone are left out; an attempt that has not ended has the worker of its lease.
create or replace function windlass.list_event_facts(p_tenant text, p_ids uuid[], p_attempts integer[])
returns table (id uuid, attempt integer, job text, queue text, worker text, started_at timestamptz,
               finished_at timestamptz, error json)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
    select i.id, i.attempt, s.job, s.queue, coalesce(a.worker, l.worker),
           coalesce(a.started_at, l.started_at), a.finished_at, a.error
      from (select distinct u.id, u.attempt from unnest(p_ids, p_attempts) as u(id, attempt)) i
     cross join lateral (
       select r.job, r.queue from windlass.runs r where r.tenant = p_tenant and r.id = i.id
        union all
       select c.job, null from windlass.schedules c where c.tenant = p_tenant and c.id = i.id
        limit 1) s
      left join lateral (
       select x.worker, x.started_at, x.finished_at, x.error from windlass.attempts x
        where x.tenant = p_tenant and x.run = i.id and x.attempt = i.attempt limit 1) a on true
      left join lateral (
       select (select n.name from windlass.worker_names n where n.worker_no = y.worker_no) as worker,
              y.started_at
         from windlass.leases y
        where y.tenant = p_tenant and y.id = i.id and y.attempt = i.attempt limit 1) l on true;
end
$$;
