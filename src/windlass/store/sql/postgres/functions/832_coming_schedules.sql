-- The enabled schedules of all tenants that have a next slot, in the order of (tenant, id), from the
-- one after p_tenant and p_id on: for a caller that has to see each of them. Returns {"now", "rows"}.
create or replace function windlass.coming_schedules(
  p_tenant text default '', p_id uuid default '00000000-0000-0000-0000-000000000000',
  p_limit integer default 100
) returns json
language plpgsql stable security definer
set timezone = 'UTC'
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_rows json;
begin
  select json_agg(c) into v_rows
    from (select * from windlass.schedules s
           where s.enabled and s.next_slot is not null and (s.tenant, s.id) > (p_tenant, p_id)
           order by s.tenant, s.id limit p_limit) c;
  return json_build_object('now', windlass.now(), 'rows', coalesce(v_rows, '[]'));
end
$$;
