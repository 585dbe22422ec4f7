-- One artifact of a run, by name.
create or replace function windlass.find_artifact(p_tenant text, p_run uuid, p_name text)
returns setof windlass.artifacts
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return query select a.* from windlass.artifacts a
    where a.tenant = p_tenant and a.run = p_run and a.name = p_name collate "C";
end
$$;
