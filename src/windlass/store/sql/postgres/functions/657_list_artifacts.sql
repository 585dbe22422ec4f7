-- The artifacts of a run by name, those after this one.
create or replace function windlass.list_artifacts(
  p_tenant text, p_run uuid, p_after text default null, p_limit integer default 1000
) returns setof windlass.artifacts
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return query select a.* from windlass.artifacts a
    where a.tenant = p_tenant and a.run = p_run
      and a.name collate "C" > coalesce(p_after, '') collate "C"
    order by a.name collate "C" limit p_limit;
end
$$;
