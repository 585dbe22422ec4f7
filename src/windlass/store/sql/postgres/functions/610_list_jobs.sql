-- The definitions of all jobs of a tenant, by name.
create or replace function windlass.list_jobs(p_tenant text)
returns setof windlass.jobs
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
  return query select j.* from windlass.jobs j where j.tenant = p_tenant order by j.name;
end
$$;
