-- The end of runs that had not started: their positions, taken away by the caller in this
-- transaction, are given as a JSON array of rows. Writes record, failure row and event.
create or replace function windlass.end_waiting(
  p_moved json, p_status text, p_failure text, p_reason text, p_now timestamptz
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_count integer;
begin
  with moved as materialized (
    select m.*
      from json_to_recordset(p_moved)
           as m(tenant text, id uuid, job text, queue text, attempt integer, failures integer,
                crash_count integer, token bigint, seq integer)
     order by m.tenant, m.id
  ), ended as (
    update windlass.runs r
       set status = p_status, failure = p_failure, reason = p_reason, attempt = m.attempt,
           failures = m.failures, crash_count = m.crash_count, token = m.token,
           seq = m.seq + 1, finished_at = p_now
      from moved m
     where r.tenant = any (array[m.tenant]) and r.id = m.id
  ), noted as (
    insert into windlass.failures (tenant, id, job, queue, status, failure, at)
    select m.tenant, m.id, m.job, m.queue, p_status, p_failure, p_now from moved m
  ), logged as (
    insert into windlass.events (tenant, subject, seq, type, at, attempt, data)
    select m.tenant, m.id, m.seq + 1,
           case p_status when 'failed' then 'run.failed' else 'run.canceled' end,
           p_now, m.attempt,
           case when p_failure is not null then json_build_object('failure', p_failure)
                when p_reason is not null then json_build_object('reason', p_reason) end
      from moved m
  )
  select count(*) into v_count from moved;
  return v_count;
end
$$;
