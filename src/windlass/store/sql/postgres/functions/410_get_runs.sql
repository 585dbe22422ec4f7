-- Runs by id, newest id first; unknown ids are left out.
create or replace function windlass.get_runs(p_tenant text, p_ids uuid[])
returns setof windlass.run_view
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return query
    select v.*
      from (select distinct unnest(p_ids) as id) i
     cross join lateral (select * from windlass.run_view x
                          where x.tenant = p_tenant and x.id = i.id limit 1) v
     order by v.id desc;
end
$$;
