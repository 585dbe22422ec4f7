-- Move a run that has not started to another time; reopen one that failed, was canceled or is stale,
-- for that time (see windlass.reopen_run). Say p_at, or p_delay in seconds from now; what has come
-- already is ready at once. A run that waits keeps its counts, expiry and deadline, and is refused a
-- time at which one of these would have ended it (WL004); what ended starts at zero, as by a retry,
-- and has neither any more. A running or succeeded run raises WL002, an unknown one WL001. Returns the run.
create or replace function windlass.reschedule(
  p_tenant text, p_id uuid, p_at timestamptz default null, p_delay double precision default null,
  p_by text default null
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
  v_move windlass.move;
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
    v_move := windlass.take_waiting(p_tenant, p_id, 'reschedule');
    exit when v_move.id is not null;
    v_move := windlass.reopen_run(p_tenant, p_id, 'reschedule');
    exit when v_move.id is not null;
    perform windlass.check_verb(p_tenant, p_id, 'reschedule');
  end loop;
  if v_move.id is null then
    raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
  end if;
  if windlass.next_status(v_move.status, 'reschedule') is null then
    perform windlass.refuse_verb(p_id, v_move.status, 'reschedule');
  end if;
  perform windlass.let_go(p_tenant, p_id, v_move.job);
  v_now := windlass.now();  -- once the row is ours: a run's events do not go back
  v_due := greatest(v_now, coalesce(p_at, v_now + make_interval(secs => p_delay)));
  v_last := least(v_move.expires_at, v_move.deadline_at);
  if v_last <= v_due then
    raise exception 'run % would end at %, it cannot wait until %', p_id, v_last, v_due
      using errcode = 'WL004', detail = json_build_array(
        p_id, windlass.iso(v_last), windlass.iso(v_due))::text;
  end if;
  v_move.at := v_due;
  v_move.data := json_build_object('at', windlass.iso(v_due));
  perform windlass.make_moves(array[v_move], v_now);
  -- The one change to the record of a live run: no index has it, so it is a HOT update.
  update windlass.runs r set scheduled_for = v_due where r.tenant = p_tenant and r.id = p_id;
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'reschedule', p_by, null,
                              json_build_object('at', windlass.iso(v_due)));
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;
