-- Record the ends of attempts. Items: tenant, id, token, outcome (succeeded, retry, failed,
-- snoozed, canceled, released, crashed), and as they apply delay, failure, result, error, counts,
-- timed_out, version (of the definition that was run). An item counts only under the lease's
-- token; the others are returned, as by windlass.succeed.
--
-- crashed is told by a worker that outlived its handler: crash_count + 1, and the run is ready
-- again, or failed where a failure is given.
--
-- Under a cancel intent, what would send the run round again ends it canceled; outcomes that
-- end it anyway stand (domain/states.py: under_intent).
create or replace function windlass.finish(p_finishes json)
returns table (tenant text, id uuid, token bigint, busy boolean)
language plpgsql volatile security definer
set extra_float_digits = 1
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_gone integer;
  v_tenants text[];
  v_ids uuid[];
  v_tokens bigint[];
begin
  perform windlass.check_escapes('list of ends', p_finishes);
  with item as materialized (
    select x.*
      from json_to_recordset(p_finishes)
           as x(tenant text, id uuid, token bigint, outcome text, delay double precision,
                failure text, result json, error json, counts boolean, timed_out boolean,
                version text)
  ), held as materialized (
    select l.place, i.*
      from item i
     cross join lateral (select l.ctid as place from windlass.leases l
                          where l.tenant = i.tenant and l.id = i.id and l.token = i.token
                            for update skip locked) l
  ), gone as (
    delete from windlass.leases l using held i where l.ctid = i.place
    returning l.tenant, l.id, l.job, l.queue, l.rank, l.worker, l.started_at, l.attempt,
              l.failures + coalesce(i.counts, false)::integer as failures,
              l.crash_count + (i.outcome = 'crashed')::integer as crash_count,
              l.token, l.seq + 1 as seq, l.deadline_at,
              i.outcome as told, greatest(i.delay, 0) as delay, i.failure,
              windlass.check_result(i.result) as result,
              windlass.check_error(l.job, i.error) as error, i.timed_out, i.version,
              -- a handler that ends its own run says why in the error's message
              coalesce(l.reason, case when i.outcome = 'canceled'
                                      then i.error ->> 'message' end) as reason,
              case when l.intent = 'cancel'
                        and i.outcome in ('retry', 'snoozed', 'released', 'crashed')
                   then 'canceled'
                   when i.outcome = 'crashed' and i.failure is not null
                   then 'failed' else i.outcome end as outcome
  ), stamp as materialized (
    -- The time is taken once the rows are ours: a run's events do not go back.
    select count(*) as taken, windlass.now() as at from gone
  ), ended as (
    update windlass.runs r
       set status = g.outcome,
           failure = case when g.outcome = 'failed' then coalesce(g.failure, 'fatal') end,
           result = g.result,
           error = case when g.outcome = 'failed' then g.error end,
           reason = case when g.outcome = 'canceled' then g.reason end,
           attempt = g.attempt, failures = g.failures, crash_count = g.crash_count,
           token = g.token, seq = g.seq, started_at = g.started_at, finished_at = s.at
      from gone g, stamp s
     where r.tenant = any (array[g.tenant]) and r.id = g.id
       and g.outcome in ('succeeded', 'failed', 'canceled')
  ), attempted as (
    insert into windlass.attempts (tenant, run, attempt, token, worker, outcome,
                                   started_at, finished_at, error, version)
    select g.tenant, g.id, g.attempt, g.token, g.worker,
           case when g.timed_out then 'timeout'
                when g.told = 'retry' then 'failed'
                when g.told = 'released' then 'interrupted'
                else g.told end,
           g.started_at, s.at, g.error, g.version
      from gone g, stamp s
  ), logged as (
    insert into windlass.events (tenant, subject, seq, type, at, attempt, data)
    select g.tenant, g.id, g.seq,
           case g.outcome when 'succeeded' then 'run.succeeded'
                          when 'retry' then 'run.retrying'
                          when 'failed' then 'run.failed'
                          when 'snoozed' then 'run.snoozed'
                          when 'released' then 'run.interrupted'
                          when 'crashed' then 'run.crashed'
                          when 'canceled' then 'run.canceled' end,
           s.at, g.attempt,
           case when g.outcome in ('retry', 'snoozed')
                then json_build_object('delay', coalesce(g.delay, 0))
                when g.outcome = 'failed'
                then json_build_object('failure', coalesce(g.failure, 'fatal'))
                when g.outcome = 'canceled' and g.reason is not null
                then json_build_object('reason', g.reason) end
      from gone g, stamp s
  ), later as (
    insert into windlass.timers (tenant, id, job, queue, rank, due_at, why,
                                 attempt, failures, crash_count, token, seq, deadline_at)
    select g.tenant, g.id, g.job, g.queue, g.rank,
           s.at + windlass.check_length(g.job, 'delay', g.delay),
           case g.outcome when 'retry' then 'backoff' else 'snooze' end,
           g.attempt, g.failures, g.crash_count, g.token, g.seq, g.deadline_at
      from gone g, stamp s
     where g.outcome in ('retry', 'snoozed') and g.delay > 0
  ), again as (
    insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                                attempt, failures, crash_count, token, seq, deadline_at)
    select g.tenant, g.id, g.job, g.queue, g.rank, s.at,
           g.attempt, g.failures, g.crash_count, g.token, g.seq, g.deadline_at
      from gone g, stamp s
     where g.outcome in ('released', 'crashed')
        or (g.outcome in ('retry', 'snoozed') and coalesce(g.delay, 0) <= 0)
  ), dead as (
    insert into windlass.failures (tenant, id, job, queue, status, failure,
                                   error_type, fingerprint, at)
    select g.tenant, g.id, g.job, g.queue, g.outcome,
           case when g.outcome = 'failed' then coalesce(g.failure, 'fatal') end,
           g.error ->> 'type', g.error ->> 'fingerprint', s.at
      from gone g, stamp s
     where g.outcome in ('failed', 'canceled')
  )
  select count(*), array_agg(g.tenant), array_agg(g.id), array_agg(g.token)
    into v_gone, v_tenants, v_ids, v_tokens
    from gone g;

  if v_gone < json_array_length(p_finishes) then
    return query
      select x.tenant, x.id, x.token,
             (select true from windlass.leases l
               where l.tenant = x.tenant and l.id = x.id and l.token = x.token limit 1) is not null
        from json_to_recordset(p_finishes) as x(tenant text, id uuid, token bigint)
       where not exists (select 1 from unnest(v_tenants, v_ids, v_tokens) as g(tenant, id, token)
                          where g.tenant = x.tenant and g.id = x.id and g.token = x.token);
  end if;
end
$$;
