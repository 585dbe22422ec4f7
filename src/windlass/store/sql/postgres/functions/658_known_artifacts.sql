-- Which of these ids are known: of the others the bytes may go.
create or replace function windlass.known_artifacts(p_tenant text, p_ids uuid[])
returns setof uuid
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return query select a.id from unnest(p_ids) as given (id)
    join windlass.artifacts a on a.tenant = p_tenant and a.id = given.id;
end
$$;
