-- Lock the leases of successes (arrays) and of other ends (JSON) together, in the one order of
-- positions: who takes the two lists one after the other takes rows out of order.
create or replace function windlass.lock_leases(
  p_tenants text[], p_ids uuid[], p_tokens bigint[], p_others json
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  perform 1
     from (select x.tenant, x.id, x.token
             from (select * from unnest(p_tenants, p_ids, p_tokens) as s(tenant, id, token)
                   union all
                   select * from json_to_recordset(p_others)
                                 as o(tenant text, id uuid, token bigint)) x
            order by x.tenant, x.id) x
    cross join lateral (select 1 from windlass.leases l
                         where l.tenant = x.tenant and l.id = x.id and l.token = x.token
                           for update) l;
end
$$;
