-- The pieces of a run's log after a place (null: from the beginning), by token and number.
create or replace function windlass.list_logs(
  p_tenant text, p_run uuid, p_token bigint, p_first integer, p_limit integer
) returns table (token bigint, first integer, attempt integer, lines json)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select g.token, g.first, g.attempt, g.lines from windlass.run_logs g
     where g.tenant = p_tenant and g.run = p_run
       and (g.token, g.first) > (coalesce(p_token, -1), coalesce(p_first, -1))
     order by g.token, g.first
     limit p_limit;
end
$$;
