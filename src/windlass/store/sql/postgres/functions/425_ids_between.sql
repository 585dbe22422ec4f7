-- The ids of runs from one to another, both included, in order.
create or replace function windlass.ids_between(
  p_tenant text, p_first uuid, p_last uuid, p_limit integer
) returns setof uuid
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
  return query
    select r.id from windlass.runs r
     where r.tenant = p_tenant and r.id >= p_first and r.id <= p_last
     order by r.id limit p_limit;
end
$$;
