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
  v_move windlass.move;
  v_lease record;
  v_status text;
begin
  -- A run may move between two looks; it has a position or an outcome at every instant, so a
  -- few rounds find it.
  for v_round in 1..20 loop
    v_move := windlass.take_waiting(p_tenant, p_id, 'cancel');
    if v_move.id is not null then
      v_move.reason := p_reason;
      select m.status into v_status
        from windlass.make_moves(array[v_move], windlass.now()) as m(status);
      return v_status;
    end if;
    update windlass.leases l
       set intent = 'cancel', reason = p_reason, seq = l.seq + 1
     where l.tenant = p_tenant and l.id = p_id and l.intent is distinct from 'cancel'
    returning l.seq, l.attempt into v_lease;
    if found then
      insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
      values (p_tenant, p_id, v_lease.seq, 'run.cancel_requested', windlass.now(), v_lease.attempt,
              case when p_reason is not null then json_build_object('reason', p_reason) end);
      return 'running';
    end if;
    -- Asked before: the first request stands, and a later one may still give the reason.
    update windlass.leases l set reason = coalesce(l.reason, p_reason)
     where l.tenant = p_tenant and l.id = p_id;
    if found then
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
