-- What became of the slots of a schedule, newest first, before p_before; the schedule is named as in
-- windlass.get_schedule. The next page: p_before = the last slot of this one.
create or replace function windlass.list_slots(
  p_tenant text, p_id uuid, p_key text default null, p_before timestamptz default null,
  p_limit bigint default 50
) returns table (slot timestamptz, outcome text, at timestamptz, run uuid)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_schedule uuid;
begin
  if p_id is not null then
    select s.id into v_schedule from windlass.schedules s
     where s.tenant = p_tenant and s.id = p_id;
  else
    select s.id into v_schedule from windlass.schedules s
     where s.tenant = p_tenant and s.key = p_key;
  end if;
  return query
    select k.slot, k.outcome, k.at, k.run from windlass.schedule_slots k
     where k.tenant = p_tenant and k.schedule = v_schedule
       and k.slot < coalesce(p_before, 'infinity')
     order by k.slot desc limit least(p_limit, 1000);
end
$$;
