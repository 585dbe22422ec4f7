-- The page of staged units that has the unit p_n.
create or replace function windlass.list_units(p_tenant text, p_batch uuid, p_n bigint)
returns table (first bigint, units json)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query select u.first, u.units from windlass.units u
    where u.tenant = p_tenant and u.batch = p_batch and u.first <= p_n
    order by u.first desc limit 1;
end
$$;
