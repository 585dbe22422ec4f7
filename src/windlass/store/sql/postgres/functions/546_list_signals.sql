-- The signals that were sent to a run, in order. The next page: p_after = the last number of this one.
create or replace function windlass.list_signals(
  p_tenant text, p_run uuid, p_after integer default 0, p_limit integer default 1000
) returns table (number integer, name text, at timestamptz, payload json, key text, taken_by text)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select g.number, g.name, g.at, g.payload, g.key, g.taken_by from windlass.signals g
     where g.tenant = p_tenant and g.run = p_run and g.number > p_after
     order by g.number limit p_limit;
end
$$;
