-- The version of the schema, and the protocol of its functions. Programs of any release ask for it
-- before they call anything else, so its name and its columns never change.
create or replace function windlass.schema_state(out version integer, out protocol integer)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  select max(m.version) into version from windlass.migrations m;
  select max(r.protocol) into protocol from windlass.routines r;
end
$$;
