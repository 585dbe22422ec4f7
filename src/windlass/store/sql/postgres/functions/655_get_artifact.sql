-- What is known of an artifact.
create or replace function windlass.get_artifact(p_tenant text, p_id uuid)
returns setof windlass.artifacts
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return query select a.* from windlass.artifacts a where a.tenant = p_tenant and a.id = p_id;
end
$$;
