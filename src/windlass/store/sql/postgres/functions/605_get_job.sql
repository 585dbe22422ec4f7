-- The definition of a job.
create or replace function windlass.get_job(p_tenant text, p_name text)
returns setof windlass.jobs
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return query select j.* from windlass.jobs j where j.tenant = p_tenant and j.name = p_name;
end
$$;
