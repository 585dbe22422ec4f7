-- Delete a schedule, slots that wait, and the record of its slots: at most p_limit of it here, the
-- rest by windlass.forget_slots. Its runs and its events stay. False: there is none.
create or replace function windlass.delete_schedule(
  p_tenant text, p_id uuid, p_key text, p_limit integer default 1000
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_row windlass.schedules := windlass.lock_schedule(p_tenant, p_id, p_key);
begin
  if v_row.id is null then
    return false;
  end if;
  delete from windlass.schedule_slots k
   where k.tenant = v_row.tenant and k.schedule = v_row.id and k.outcome = 'waiting';
  if windlass.drop_slots(v_row.tenant, v_row.id, p_limit) then
    insert into windlass.schedule_gone (tenant, schedule) values (v_row.tenant, v_row.id)
    on conflict do nothing;
  end if;
  delete from windlass.schedule_live l where l.tenant = v_row.tenant and l.schedule = v_row.id;
  delete from windlass.schedules s where s.tenant = v_row.tenant and s.id = v_row.id;
  insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
  values (v_row.tenant, v_row.id, v_row.seq + 1, 'schedule.deleted', windlass.now(), 0);
  return true;
end
$$;
