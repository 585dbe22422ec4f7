-- The leases at these places (locked by the caller) are taken from their dead holders.
create or replace function windlass.take_back(
  p_places tid[], p_max_crashes integer, p_now timestamptz,
  out reaped integer, out crashed integer, out canceled integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  with gone as (
    delete from windlass.leases l where l.ctid = any (p_places)
    returning l.*, case when l.intent = 'cancel' then 'canceled'
                        when l.crash_count + 1 >= p_max_crashes then 'failed'
                        else 'ready' end as fate
  ), again as (
    insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                                attempt, failures, crash_count, token, seq, deadline_at)
    select g.tenant, g.id, g.job, g.queue, g.rank, p_now,
           g.attempt, g.failures, g.crash_count + 1, g.token, g.seq + 1, g.deadline_at
      from gone g where g.fate = 'ready'
  ), ended as (
    update windlass.runs r
       set status = g.fate, failure = case when g.fate = 'failed' then 'crashed' end,
           reason = case when g.fate = 'canceled' then g.reason end,
           attempt = g.attempt, failures = g.failures, crash_count = g.crash_count + 1,
           token = g.token, seq = g.seq + 1, started_at = g.started_at, finished_at = p_now
      from gone g
     where r.tenant = any (array[g.tenant]) and r.id = g.id and g.fate <> 'ready'
  ), noted as (
    insert into windlass.failures (tenant, id, job, queue, status, failure, at)
    select g.tenant, g.id, g.job, g.queue, g.fate,
           case when g.fate = 'failed' then 'crashed' end, p_now
      from gone g where g.fate <> 'ready'
  ), attempted as (
    insert into windlass.attempts (tenant, run, attempt, token, worker, outcome,
                                   started_at, finished_at)
    select g.tenant, g.id, g.attempt, g.token, g.worker, 'crashed', g.started_at, p_now
      from gone g
  ), logged as (
    insert into windlass.events (tenant, subject, seq, type, at, attempt, data)
    select g.tenant, g.id, g.seq + 1,
           case g.fate when 'ready' then 'run.crashed' when 'failed' then 'run.failed'
                       else 'run.canceled' end,
           p_now, g.attempt,
           case when g.fate = 'failed' then '{"failure": "crashed"}'::json
                when g.fate = 'canceled' and g.reason is not null
                then json_build_object('reason', g.reason) end
      from gone g
  )
  select count(*) filter (where g.fate = 'ready'), count(*) filter (where g.fate = 'failed'),
         count(*) filter (where g.fate = 'canceled')
    into reaped, crashed, canceled
    from gone g;
end
$$;
