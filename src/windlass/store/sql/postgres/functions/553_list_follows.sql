-- The runs that a run comes after, in the order given; p_followers: those that come after it, by id.
create or replace function windlass.list_follows(
  p_tenant text, p_run uuid, p_followers boolean default false, p_limit integer default 500
) returns table (id uuid, n integer, awaited uuid, mode text, argument text, outcome text)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  if p_followers then
    return query
      select f.id, f.n, f.awaited, f.mode, f.argument, f.outcome from windlass.follows f
       where f.awaited = p_run and f.tenant = p_tenant order by f.id limit p_limit;
  else
    return query
      select f.id, f.n, f.awaited, f.mode, f.argument, f.outcome from windlass.follows f
       where f.tenant = p_tenant and f.id = p_run order by f.n limit p_limit;
  end if;
end
$$;
