-- Take a run out of its end, for a move by this verb (see windlass.make_moves): its record is that of
-- a live run again, it is no dead letter, and its schedule counts it. Token, attempt and seq go on,
-- failures and crash_count start at zero, and it has neither expiry nor deadline any more. Its steps that
-- failed are tried anew, those that are done stay done. Options:
-- those that it has from now on, where p_max_attempts is given.
-- A key that is its own while it lives must not be another live run's (WL011).
-- All null: there is no such run, or it has not ended. One that the verb may not reopen raises WL002.
create or replace function windlass.reopen_run(
  p_tenant text, p_id uuid, p_verb text, p_max_attempts integer default null
) returns windlass.move
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_run windlass.runs;
begin
  -- The row is the mutex: of two that reopen at once, the second finds a run that has not ended.
  select * into v_run from windlass.runs r
   where r.tenant = p_tenant and r.id = p_id and r.status is not null for no key update;
  if not found then
    return null;
  elsif windlass.next_status(v_run.status, p_verb) is null
        or (v_run.status = 'succeeded' and v_run.stale_at is null) then
    perform windlass.refuse_verb(p_id, v_run.status, p_verb);
  end if;
  if v_run.key is not null and v_run.options ->> 'unique' = 'live' then
    perform windlass.keep_key(v_run, windlass.now());
  end if;
  if v_run.status = 'succeeded' then
    -- Only the record tells of this attempt, and it will not any more.
    insert into windlass.attempt_rows (tenant, run, attempt, token, worker, outcome, started_seq,
                                       ended_seq, started_at, finished_at, version)
    values (p_tenant, p_id, v_run.attempt, v_run.token, windlass.worker_name(v_run.worker_no),
            'succeeded', v_run.started_seq, v_run.seq, v_run.started_at, v_run.finished_at,
            v_run.attempt_version);
    if v_run.stale_at is not null then
      -- So it is with this event. It was paged when it happened.
      v_run.seq := v_run.seq + 1;
      insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
      values (p_tenant, p_id, v_run.seq, 'run.stale', v_run.stale_at, v_run.attempt);
    end if;
  end if;
  update windlass.runs r
     set status = null, failure = null, result = null, error = null, reason = null,
         attempt = null, failures = null, crash_count = null, token = null, seq = null,
         started_seq = null, started_at = null, finished_at = null, worker_no = null,
         attempt_version = null, stale_at = null, expires_at = null, deadline_at = null,
         options = case when p_max_attempts is null then r.options
                        else (coalesce(r.options::jsonb, '{}')
                              || jsonb_build_object('max_attempts', p_max_attempts))::json end
   where r.tenant = p_tenant and r.id = p_id;
  -- A step that failed is the record of its event: it is kept, in a generation of its own. No attempt
  -- that is to come has that number.
  update windlass.steps s set generation = -v_run.attempt
   where s.tenant = p_tenant and s.run = p_id and s.generation = 0
     and s.state in ('failed', 'retrying');
  perform windlass.forget_failed_children(p_tenant, p_id, v_run.attempt);
  if v_run.schedule is not null then
    -- It lives again, and its schedule's overlap is judged by that. The lock waits for whoever
    -- is just judging, and keeps the schedule from being deleted meanwhile.
    insert into windlass.schedule_live (tenant, schedule, slot, run)
    select p_tenant, v_run.schedule, v_run.slot, p_id
      from windlass.schedules s
     where s.tenant = p_tenant and s.id = v_run.schedule for key share
    on conflict do nothing;
  end if;
  delete from windlass.failures f where f.tenant = p_tenant and f.id = p_id;
  return row(p_tenant, p_id, v_run.job, v_run.queue, -v_run.priority,
             v_run.attempt, 0, 0, v_run.token, v_run.seq,
             null, null,
             v_run.status, null, null, null, null, null, null,
             p_verb, false, false, null,
             null, null, null, null, null,
             null, null, null)::windlass.move;
end
$$;

-- A step that waits for many children is taken up again, as its run is reopened: those that have not
-- succeeded, or were asked to end, are started anew. A batch that was stopped or terminated may go on.
create or replace function windlass.forget_failed_children(p_tenant text, p_id uuid, p_attempt integer)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_path text;
  v_forced boolean := exists (select 1 from windlass.batches b
                               where b.tenant = p_tenant and b.run = p_id and b.forced);
begin
  for v_path in
    select s.path from windlass.steps s
     where s.tenant = p_tenant and s.run = p_id and s.generation = 0 and s.kind = 'children'
       and s.state = 'waiting'
  loop
    update windlass.children c
       set generation = -p_attempt, detached = c.state <> 'ended'
     where c.parent = p_id and c.tenant = p_tenant and c.generation = 0 and c.path = v_path
       and case when c.state = 'ended'
                then (select r.status from windlass.runs r
                       where r.tenant = p_tenant and r.id = c.id limit 1)
                     is distinct from 'succeeded'
                else v_forced or exists (select 1 from windlass.leases l
                                          where l.tenant = p_tenant and l.id = c.id
                                            and l.intent = 'cancel') end;
    if found then
      insert into windlass.wakes (tenant, run) values (p_tenant, p_id);
    end if;
  end loop;
  update windlass.batches b set stopped = null, forced = false
   where b.tenant = p_tenant and b.run = p_id and (b.stopped is not null or b.forced);
end
$$;
