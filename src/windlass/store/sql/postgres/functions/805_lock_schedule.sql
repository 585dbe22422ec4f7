-- One schedule by its id or, where there is none, by its key, locked: this row guards the schedule,
-- its slots and its live runs. Those who store, fire or release lock it in ways of their own, and a
-- retry shares it (windlass.put_schedule, hold_schedules, release_waiting, reopen_run).
create or replace function windlass.lock_schedule(p_tenant text, p_id uuid, p_key text)
returns windlass.schedules
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_row windlass.schedules;
begin
  if p_id is not null then
    select * into v_row from windlass.schedules s
     where s.tenant = p_tenant and s.id = p_id for update;
  else
    select * into v_row from windlass.schedules s
     where s.tenant = p_tenant and s.key = p_key for update;
  end if;
  return v_row;
end
$$;
