-- The ended attempts of a run, the last one first: those numbered below p_before, at most p_limit.
create or replace function windlass.list_attempts(
  p_tenant text, p_id uuid, p_before integer default null, p_limit integer default 100
) returns setof windlass.attempts
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return query
    select * from windlass.attempts a
     where a.tenant = p_tenant and a.run = p_id and a.attempt < coalesce(p_before, 2147483647)
     order by a.attempt desc limit p_limit;
end
$$;
