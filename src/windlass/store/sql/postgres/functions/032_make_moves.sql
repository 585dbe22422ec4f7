-- Move runs: write where each of them goes, and all that is recorded of it. The twin of SQLite's
-- Moves. Only what is hot is written elsewhere: enqueue, claim, succeed and dispatch.
--
-- The caller has taken the old positions away in this transaction, by `delete … returning`, which is
-- what makes the runs its own, and took p_now after that: a run's events do not go back in time.
-- The rules decide (030_rules.sql): an operator's intent may turn the verb into another; the verb says
-- which status follows, which event is written, and how the attempt ended that was under a lease.
-- Returns the status of each run. A run that fails for good starts the run of its failure handler, if
-- its job has one (windlass.start_failure_runs). One that goes on with another input, which is in
-- `result` then, has its failures and crashes counted anew (windlass.continue_runs).
--
-- A verb that lets a run wait until a time that has come (or is null), or for a signal that is there,
-- leads to its queue at once. That is looked at here, in a statement after the one that took the run's
-- position: whoever sends a signal has had that locked, and is seen. What
-- stays in its status stays in its place: it was ready, or is due, when it was before.
--
-- Under an intent to pause, a run that goes on is put aside where it has gone (windlass.put_aside).
create or replace function windlass.make_moves(p_moves windlass.move[], p_now timestamptz)
returns setof text
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_next text[];
  v_dead json;
  v_onward json;
  v_status text;
  v_paused record;
begin
  if coalesce(cardinality(p_moves), 0) = 0 then
    return;
  end if;
  with move as materialized (
    select m.tenant, m.id, m.job, m.queue, m.rank, m.attempt, m.token, m.expires_at, m.deadline_at,
           m.worker_no, m.started_at, m.started_seq, m.verb, m.deed, m.at, m.waits, m.was_why, m.was_due_at, m.timed_out, m.version, m.result, m.error,
           case when m.deed = 'continue' then 0
                else m.failures + coalesce(m.counts, false)::integer end as failures,
           case when m.status = 'queued' and m.next = 'queued' then m.at else p_now end as ready_at,
           coalesce(windlass.wait_of(m.deed), m.why) as why,
           case when m.deed = 'continue' then 0
                else m.crash_count
                     + (windlass.attempt_of(m.verb) is not distinct from 'crashed')::integer end
             as crash_count,
           case when m.deed = 'continue' then windlass.next_generation(m.tenant, m.id) end
             as generation,
           m.seq + 1 as seq,
           case when m.next in ('scheduled', 'waiting') and windlass.wait_of(m.deed) is not null
                     and (m.at is null or m.at <= p_now
                          or (m.waits is not null
                              and windlass.is_answered(m.tenant, m.id, m.waits)))
                then windlass.next_status(m.next, 'due') else m.next end as next,
           case when m.next = 'failed'
                then coalesce(m.failure, windlass.failure_of(m.deed)) end as failure,
           case when m.next = 'failed'
                then (select j.on_failure from windlass.jobs j
                       where j.tenant = m.tenant and j.name = m.job
                         and j.on_failure ->> 'job' is not null
                         and j.on_failure ->> 'argument' is not null
                         -- A run that handles a failure has no handler itself. It is found by
                         -- the text, as options from elsewhere may not be readable, and looked
                         -- for only where there is a handler: hence j.tenant.
                         and (select true from windlass.runs r
                               where r.tenant = j.tenant and r.id = m.id
                                 and r.options::text like '%"on_failure"%') is null)
                end as handler,
           case when m.next = 'canceled' then m.reason end as reason,
           case when m.next not in ('failed', 'canceled') then m.data end as data,
           case when m.next = 'canceled' then m.data -> 'heard' end as heard
      from (select m.*, windlass.under_intent(m.verb, m.intent) as deed,
                   coalesce(windlass.next_status(m.status,
                                                 windlass.under_intent(m.verb, m.intent)),
                            windlass.refuse_verb(m.id, m.status, m.verb)) as next
              from unnest(p_moves) m
            offset 0) m
  ), queued as (
    insert into windlass.ready (tenant, id, job, queue, rank, ready_at, attempt, failures,
                                crash_count, token, seq, expires_at, deadline_at)
    select m.tenant, m.id, m.job, m.queue, m.rank, m.ready_at, m.attempt, m.failures,
           m.crash_count, m.token, m.seq, m.expires_at, m.deadline_at
      from move m where m.next = 'queued'
  ), scheduled as (
    insert into windlass.timers (tenant, id, job, queue, rank, due_at, why, attempt, failures,
                                 crash_count, token, seq, expires_at, deadline_at, waits,
                                 was_why, was_due_at)
    select m.tenant, m.id, m.job, m.queue, m.rank, m.at, m.why, m.attempt,
           m.failures, m.crash_count, m.token, m.seq, m.expires_at, m.deadline_at, m.waits,
           m.was_why, m.was_due_at
      from move m where m.next in ('scheduled', 'waiting', 'paused')
  ), ended as (
    update windlass.runs r
       set status = m.next, failure = m.failure, reason = m.reason,
           result = case when m.next = 'succeeded' then m.result end,
           error = case when m.next = 'failed' then m.error end,
           attempt = m.attempt, failures = m.failures, crash_count = m.crash_count,
           token = m.token, seq = m.seq, started_seq = m.started_seq,
           started_at = m.started_at, finished_at = p_now, worker_no = m.worker_no,
           attempt_version = m.version
      from move m
     where r.tenant = any (array[m.tenant]) and r.id = m.id
       and m.next in ('succeeded', 'failed', 'canceled')
  ), buried as (
    insert into windlass.failures (tenant, id, job, queue, status, failure,
                                   error_type, fingerprint, at)
    select m.tenant, m.id, m.job, m.queue, m.next, m.failure,
           m.error ->> 'type', m.error ->> 'fingerprint', p_now
      from move m where m.next in ('failed', 'canceled')
  ), attempted as (
    insert into windlass.attempt_rows (tenant, run, attempt, token, worker, outcome, started_seq,
                                       ended_seq, started_at, finished_at, error, version)
    select m.tenant, m.id, m.attempt, m.token, windlass.worker_name(m.worker_no),
           case when m.timed_out then 'timeout' else windlass.attempt_of(m.verb) end,
           m.started_seq, m.seq, m.started_at, p_now, m.error, m.version
      from move m where m.worker_no is not null and m.next <> 'succeeded'
  ), paged as (
    -- The record of a success tells all of it: it needs no rows, see windlass.events.
    insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
    select windlass.page_moment(), p_now, m.seq, m.attempt, m.tenant, 'run.succeeded',
           array_agg(m.id)
      from move m where m.next = 'succeeded' group by m.tenant, m.seq, m.attempt
  ), logged as (
    insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
    select m.tenant, m.id, m.seq, windlass.event_of(m.deed), p_now, m.attempt,
           case when m.handler is not null
                then json_build_object('failure', m.failure, 'handled_by',
                                       windlass.handling_id(m.id, m.seq, p_now))
                when m.failure is not null then json_build_object('failure', m.failure)
                when m.reason is not null or m.heard is not null
                then json_strip_nulls(json_build_object('reason', m.reason, 'heard', m.heard))
                when m.generation is not null then json_build_object('generation', m.generation)
                else m.data end
      from move m where m.next <> 'succeeded'
  )
  select array_agg(m.next),
         json_agg(json_build_object(
           'tenant', m.tenant, 'id', m.id, 'job', m.job, 'queue', m.queue, 'rank', m.rank,
           'attempt', m.attempt, 'failures', m.failures, 'crash_count', m.crash_count,
           'failure', m.failure, 'error', m.error, 'handler', m.handler,
           'handled_by', windlass.handling_id(m.id, m.seq, p_now)))
           filter (where m.handler is not null),
         json_agg(json_build_object(
           'tenant', m.tenant, 'id', m.id, 'generation', m.generation, 'input', m.result,
           'attempt', m.attempt, 'seq', m.seq))
           filter (where m.generation is not null)
    into v_next, v_dead, v_onward
    from move m;
  if v_dead is not null then
    perform windlass.start_failure_runs(v_dead, p_now);
  end if;
  if v_onward is not null then
    perform windlass.continue_runs(v_onward, p_now);
  end if;
  for v_paused in
    select m.ordinality as n, m.tenant, m.id, m.reason from unnest(p_moves) with ordinality as m
     where m.intent = 'pause' and windlass.next_status(v_next[m.ordinality], 'pause') = 'paused'
  loop
    v_next[v_paused.n] := windlass.put_aside(v_paused.tenant, v_paused.id, v_paused.reason);
  end loop;
  foreach v_status in array v_next loop
    return next v_status;
  end loop;
end
$$;
