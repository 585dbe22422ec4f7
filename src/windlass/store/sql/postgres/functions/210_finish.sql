-- Record the ends of attempts. Items: tenant, id, token, outcome (succeeded, retry, failed,
-- snoozed, sleeping, waiting, continued, canceled, released, crashed), and as they apply delay, failure, result,
-- error, counts, timed_out, version (of the definition that was run), waits (the paths of the steps in
-- which it sleeps or waits), until (when it goes on at the latest) and heard (for how many seconds its worker
-- has known that it is to end or to pause). An item counts only under the lease's token; the others are returned, as by windlass.succeed. Of a success, error and timed_out say nothing.
-- The result of one that is continued is the input with which the run goes on.
--
-- crashed is told by a worker that outlived its handler: crash_count + 1, and the run is ready
-- again, or failed where a failure is given.
--
-- Under a cancel intent, what would send the run round again ends it canceled; under one to pause it
-- is paused where it goes. Outcomes that end it anyway stand (windlass.under_intent).
create or replace function windlass.finish(p_finishes json)
returns table (tenant text, id uuid, token bigint, busy boolean)
language plpgsql volatile security definer
set extra_float_digits = 1
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_gone integer;
  v_now timestamptz;
  v_moves windlass.move[];
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
                version text, until timestamptz, waits text[], heard double precision)
  ), held as materialized (
    select l.place, i.*
      from item i
     cross join lateral (select l.ctid as place from windlass.leases l
                          where l.tenant = i.tenant and l.id = i.id and l.token = i.token
                            for update skip locked) l
  ), gone as (
    delete from windlass.leases l using held i where l.ctid = i.place
    returning l.*, i.outcome, greatest(i.delay, 0) as delay, coalesce(i.counts, false) as counts,
              i.timed_out, i.version, i.until, i.waits, case when i.heard > 0 then i.heard when i.heard is not null then 0 end as heard,
              i.failure as told_failure,
              windlass.check_result(i.result) as result,
              windlass.check_error(l.job, i.error) as error
  ), stamp as materialized (
    -- The time is taken once the rows are ours: a run's events do not go back.
    select count(*) as taken, windlass.now() as at from gone
  )
  select count(*), max(s.at), array_agg(g.tenant), array_agg(g.id), array_agg(g.token),
         array_agg(row(
           g.tenant, g.id, g.job, g.queue, g.rank,
           g.attempt, g.failures, g.crash_count, g.token, g.seq,
           null, g.deadline_at,  -- it was claimed once: it has started in time
           'running',
           case when g.outcome in ('sleeping', 'waiting') then coalesce(g.until, 'infinity')
                when g.delay > 0 then s.at + windlass.check_length(g.job, 'delay', g.delay) end,
           null, g.worker_no, g.started_at, g.started_seq, g.intent,
           windlass.verb_of(g.outcome, g.told_failure), g.counts, g.timed_out, g.version,
           g.told_failure,
           -- a handler that ends its own run says why in the error's message
           coalesce(case when g.intent = 'cancel' then g.reason end,
                    case when g.outcome = 'canceled' then g.error ->> 'message' else g.reason end),
           g.result, g.error,
           case when g.outcome in ('retry', 'snoozed')
                then json_strip_nulls(json_build_object('delay', coalesce(g.delay, 0), 'heard', g.heard))
                when g.outcome in ('sleeping', 'waiting')
                then json_strip_nulls(json_build_object('for', g.waits, 'until', windlass.iso(g.until),
                                                        'heard', g.heard))
                when g.heard is not null then json_build_object('heard', g.heard) end,
           case when g.outcome in ('sleeping', 'waiting') then g.waits end, null, null
         )::windlass.move)
    into v_gone, v_now, v_tenants, v_ids, v_tokens, v_moves
    from gone g, stamp s;
  perform windlass.make_moves(v_moves, v_now);

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
