-- Forget artifacts of a run, some at a time. Returns those: their bytes may go.
create or replace function windlass.forget_artifacts(
  p_tenant text, p_run uuid, p_limit integer default 1000
) returns setof windlass.artifacts
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return query
    with part as materialized (
      select a.id from windlass.artifacts a
        where a.tenant = p_tenant and a.run = p_run order by a.name collate "C" limit p_limit
    )
    delete from windlass.artifacts a using part s
      where a.tenant = p_tenant and a.id = s.id returning a.*;
end
$$;
