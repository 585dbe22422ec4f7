-- Move a run that has not started to another time; reopen one that failed, was canceled or is stale,
-- for that time (see windlass.reopen_run). Say p_at, or p_delay in seconds from now; what has come
-- already is ready at once. A run that waits keeps its counts, expiry and deadline, and is refused a
-- time at which one of these would have ended it (WL004); what ended starts at zero, as by a retry,
-- and has neither any more. A running or succeeded run raises WL002, an unknown one WL001. Returns the run.
create or replace function windlass.reschedule(
  p_tenant text, p_id uuid, p_at timestamptz default null, p_delay double precision default null
) returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_now timestamptz;
  v_due timestamptz;
  v_last timestamptz;
  v_place windlass.timers;  -- what it carries, wherever it was
  v_run windlass.runs;
  v_status text;
  v_stale_at timestamptz;
begin
  if (p_at is null) = (p_delay is null) then
    raise exception 'say either p_at or p_delay'
      using errcode = 'WL005',
            detail = json_build_array('reschedule', 'takes either a time or a delay')::text;
  -- Not every time that fits here fits the clients' types, in whichever zone they read it.
  elsif p_at < '0001-01-01Z' or p_at >= '9999-12-31Z' then
    raise exception 'p_at must be of the years 1 to 9999'
      using errcode = 'WL005', detail = json_build_array(
        'reschedule', 'takes a time from the year 1 to the last day but one of 9999')::text;
  elsif p_delay < 0 or p_delay > 3155760000 then  -- and NaN is greater than any number
    raise exception 'p_delay must be of 0 seconds to 100 years'
      using errcode = 'WL005',
            detail = json_build_array('reschedule', 'takes a delay of 0 s to 100 years')::text;
  end if;
  -- It may move between two looks, see windlass.stop_run.
  for v_round in 1..20 loop
    delete from windlass.ready r where r.tenant = p_tenant and r.id = p_id
    returning r.tenant, r.id, r.job, r.queue, r.rank, null, null, r.attempt, r.failures,
              r.crash_count, r.token, r.seq, r.expires_at, r.deadline_at into v_place;
    exit when found;
    delete from windlass.timers t where t.tenant = p_tenant and t.id = p_id returning * into v_place;
    exit when found;
    v_run := windlass.reopen_run(p_tenant, p_id);
    if v_run.id is not null then
      v_place := row(p_tenant, p_id, v_run.job, v_run.queue, -v_run.priority, null, null,
                     v_run.attempt, 0, 0, v_run.token, v_run.seq, null, null);
      exit;
    end if;
    select v.status, v.stale_at into v_status, v_stale_at from windlass.run_view v
      where v.tenant = p_tenant and v.id = p_id;
    if not found then
      raise exception 'there is no run %', p_id
        using errcode = 'WL001', detail = json_build_array(p_id)::text;
    elsif v_status = 'running' or (v_status = 'succeeded' and v_stale_at is null) then
      raise exception 'run % is %, it cannot be rescheduled', p_id, v_status
        using errcode = 'WL002', detail = json_build_array(p_id, v_status, 'reschedule')::text;
    end if;
  end loop;
  if v_place.id is null then
    raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
  end if;
  v_now := windlass.now();  -- once the row is ours: a run's events do not go back
  v_due := greatest(v_now, coalesce(p_at, v_now + make_interval(secs => p_delay)));
  v_last := least(v_place.expires_at, v_place.deadline_at);
  if v_last <= v_due then
    raise exception 'run % would end at %, it cannot wait until %', p_id, v_last, v_due
      using errcode = 'WL004', detail = json_build_array(
        p_id, windlass.iso(v_last), windlass.iso(v_due))::text;
  end if;
  if v_due > v_now then
    insert into windlass.timers (tenant, id, job, queue, rank, due_at, why, attempt, failures,
                                 crash_count, token, seq, expires_at, deadline_at)
    values (p_tenant, p_id, v_place.job, v_place.queue, v_place.rank, v_due, 'delay',
            v_place.attempt, v_place.failures, v_place.crash_count, v_place.token,
            v_place.seq + 1, v_place.expires_at, v_place.deadline_at);
  else
    insert into windlass.ready (tenant, id, job, queue, rank, ready_at, attempt, failures,
                                crash_count, token, seq, expires_at, deadline_at)
    values (p_tenant, p_id, v_place.job, v_place.queue, v_place.rank, v_now,
            v_place.attempt, v_place.failures, v_place.crash_count, v_place.token,
            v_place.seq + 1, v_place.expires_at, v_place.deadline_at);
  end if;
  -- The one change to the record of a live run: no index has it, so it is a HOT update.
  update windlass.runs r set scheduled_for = v_due where r.tenant = p_tenant and r.id = p_id;
  insert into windlass.events (tenant, subject, seq, type, at, attempt, data)
  values (p_tenant, p_id, v_place.seq + 1, 'run.rescheduled', v_now, v_place.attempt,
          json_build_object('at', windlass.iso(v_due)));
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;
