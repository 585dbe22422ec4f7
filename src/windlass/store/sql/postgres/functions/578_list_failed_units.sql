-- The units of a batch that failed, by number, after a number.
create or replace function windlass.list_failed_units(
  p_tenant text, p_run uuid, p_after bigint default -1, p_limit integer default 100
) returns table (n bigint, shard integer, unit json, error json)
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
  return query
    select f.n, f.shard, f.unit, f.error from windlass.unit_failures f
     where f.tenant = p_tenant and f.batch = p_run and f.n > p_after
     order by f.n limit p_limit;
end
$$;
