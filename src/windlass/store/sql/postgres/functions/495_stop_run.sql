-- End a run that has not started, for good; ask for the end of one that is running (its worker
-- is told at the next renewal). Harmless to repeat. Returns the status that this left the run
-- in, which is another outcome where it had ended before; null: there is no such run.
create or replace function windlass.stop_run(p_tenant text, p_id uuid, p_reason text)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_ready windlass.ready;
  v_timer windlass.timers;
  v_lease record;
  v_status text;
begin
  -- A run may move between two looks; it has a position or an outcome at every instant, so a
  -- few rounds find it. The time is taken once the row is ours: a run's events do not go back.
  for v_round in 1..20 loop
    delete from windlass.ready r where r.tenant = p_tenant and r.id = p_id returning * into v_ready;
    if found then
      perform windlass.end_waiting(json_build_array(row_to_json(v_ready)),
                                   'canceled', null, p_reason, windlass.now());
      return 'canceled';
    end if;
    delete from windlass.timers t where t.tenant = p_tenant and t.id = p_id returning * into v_timer;
    if found then
      perform windlass.end_waiting(json_build_array(row_to_json(v_timer)),
                                   'canceled', null, p_reason, windlass.now());
      return 'canceled';
    end if;
    update windlass.leases l
       set intent = 'cancel', reason = coalesce(l.reason, p_reason),
           seq = l.seq + (l.intent is distinct from 'cancel')::integer
     where l.tenant = p_tenant and l.id = p_id
    returning l.seq, l.attempt into v_lease;
    if found then
      insert into windlass.events (tenant, subject, seq, type, at, attempt, data)
      values (p_tenant, p_id, v_lease.seq, 'run.cancel_requested', windlass.now(), v_lease.attempt,
              case when p_reason is not null then json_build_object('reason', p_reason) end)
      on conflict do nothing;  -- asked before: the first request stands
      return 'running';
    end if;
    select r.status into v_status from windlass.runs r where r.tenant = p_tenant and r.id = p_id;
    if not found or v_status is not null then
      return v_status;
    end if;
  end loop;
  raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
end
$$;
