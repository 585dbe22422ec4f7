-- The id of the run that handles a death: made of the time, the dead run and the number of the event
-- that ended it, so it is the same whenever it is made. domain/failed.py has the same function.
create or replace function windlass.handling_id(p_run uuid, p_seq integer, p_now timestamptz)
returns uuid
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_ms bigint := floor(extract(epoch from p_now) * 1000);
  v_bytes bytea := substring(
    sha256(uuid_send(p_run) || convert_to(p_seq::text, 'UTF8')) from 1 for 16);
begin
  v_bytes := overlay(v_bytes placing substring(int8send(v_ms) from 3) from 1 for 6);
  v_bytes := set_byte(v_bytes, 6, 112 | (get_byte(v_bytes, 6) & 15));  -- version 7
  v_bytes := set_byte(v_bytes, 8, 128 | (get_byte(v_bytes, 8) & 63));
  return encode(v_bytes, 'hex')::uuid;
end
$$;

-- Runs that failed for good, in this transaction, start the runs of their failure handlers: see
-- domain/failed.py, and windlass.make_moves, which calls it. The twin of SQLite's FailureRuns.
-- Items: tenant, id, job, queue, rank, attempt, failures, crash_count, failure, error, handler (as
-- stored with the job) and handled_by, the id of the new run.
create or replace function windlass.start_failure_runs(p_dead json, p_now timestamptz)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  with dead as materialized (
    select x.*, r.input, r.tags, r.key, r.trace, r.metadata, r.created_at,
           coalesce(x.error, (select a.error from windlass.attempt_rows a
                               where a.tenant = x.tenant and a.run = x.id and a.error is not null
                               order by a.attempt desc limit 1)) as last_error
      from json_to_recordset(p_dead)
           as x(tenant text, id uuid, job text, queue text, rank integer, attempt integer,
                failures integer, crash_count integer, failure text, error json, handler json,
                handled_by uuid)
     cross join lateral (select r.* from windlass.runs r
                          where r.tenant = x.tenant and r.id = x.id limit 1) r
  ), fresh as (
    insert into windlass.runs (tenant, id, job, queue, priority, input, options, trace,
                               enqueued_by, created_at, scheduled_for)
    select d.tenant, d.handled_by, d.handler ->> 'job', coalesce(d.handler ->> 'queue', d.queue),
           coalesce((d.handler ->> 'priority')::integer, -d.rank),
           json_build_object(d.handler ->> 'argument', json_build_object(
             'id', d.id, 'job', d.job, 'queue', d.queue, 'failure', d.failure, 'input', d.input,
             'error', d.last_error, 'attempts', d.attempt, 'failures', d.failures,
             'crashes', d.crash_count, 'key', d.key, 'tags', coalesce(d.tags, '{}'),
             'metadata', d.metadata, 'created_at', windlass.iso(d.created_at),
             'failed_at', windlass.iso(p_now))),
           '{"on_failure":true}', coalesce(d.trace, replace(d.id::text, '-', '')), d.id, p_now,
           p_now
      from dead d order by d.handled_by, d.tenant
    returning tenant, id, job, queue, priority
  ), made_ready as (
    insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                                attempt, failures, crash_count, token, seq)
    select f.tenant, f.id, f.job, f.queue, -f.priority, p_now, 0, 0, 0, 0, 1 from fresh f
  )
  insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
  select windlass.page_moment(), p_now, 1, 0, f.tenant, 'run.enqueued', array_agg(f.id)
    from fresh f group by f.tenant;
  perform pg_notify('windlass', '');  -- whoever ended the run may not know the handler
end
$$;
