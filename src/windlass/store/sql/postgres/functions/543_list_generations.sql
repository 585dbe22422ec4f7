-- The inputs that a run went on from, by number. The next page: p_after = the last number of this one.
create or replace function windlass.list_generations(
  p_tenant text, p_run uuid, p_after integer default 0, p_limit integer default 1000
) returns table (number integer, input json, attempt integer, seq integer, at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select g.generation, g.input, g.attempt, g.seq, g.at from windlass.generations g
     where g.tenant = p_tenant and g.run = p_run and g.generation > p_after
     order by g.generation limit p_limit;
end
$$;
