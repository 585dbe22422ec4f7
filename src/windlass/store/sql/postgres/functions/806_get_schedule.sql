-- One schedule by its id or, where that is null, by its key.
create or replace function windlass.get_schedule(
  p_tenant text, p_id uuid, p_key text default null
) returns setof windlass.schedules
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  if p_id is not null then
    return query select s.* from windlass.schedules s where s.tenant = p_tenant and s.id = p_id;
  else
    return query select s.* from windlass.schedules s where s.tenant = p_tenant and s.key = p_key;
  end if;
end
$$;
