-- Which shard of which batch a run is, if the lease is held under that token: it is locked. One that its
-- batch began anew without is none any more.
create or replace function windlass.place_of_shard(p_tenant text, p_id uuid, p_token bigint)
returns table (batch uuid, n integer, root uuid, path text)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_id and l.token = p_token for update;
  if found then
    return query select c.parent, c.n, c.root, c.path from windlass.children c
      where c.tenant = p_tenant and c.id = p_id and c.generation = 0 and not c.detached;
  end if;
end
$$;
