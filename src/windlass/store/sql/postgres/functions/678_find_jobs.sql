-- Let the runs of every job that has any be looked after: a probe of the index for each job, however many
-- runs it has.
create or replace function windlass.find_jobs(p_now timestamptz) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_job text := '';
  v_tenant text := '';
begin
  loop
    select r.job, r.tenant into v_job, v_tenant from windlass.runs r
     where (r.job, r.tenant) > (v_job, v_tenant) and r.job <> ''
     order by r.job, r.tenant limit 1;
    exit when not found;
    insert into windlass.chores (kind, tenant, job, due_at)
    values ('stale', v_tenant, v_job, p_now), ('delete', v_tenant, v_job, p_now)
    on conflict (kind, tenant, job) do nothing;
  end loop;
end
$$;
