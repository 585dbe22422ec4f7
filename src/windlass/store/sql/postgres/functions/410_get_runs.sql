-- Runs by id, newest id first; unknown ids are left out.
create or replace function windlass.get_runs(p_tenant text, p_ids uuid[])
returns setof windlass.run_view
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
-- A page is at most a thousand ids: one lookup by key each, never a scan.
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
as $$
begin
  return query
    select v.* from windlass.run_view v
     where v.tenant = p_tenant and v.id = any (p_ids)
     order by v.id desc;
end
$$;
