-- A page of runs, newest id first. The next page: p_before = the last id of this one.
--   select id, job, status from windlass.list_runs('default', p_status => 'failed');
create or replace function windlass.list_runs(
  p_tenant text, p_status text default null, p_job text default null, p_queue text default null,
  p_tag text default null, p_failure text default null, p_dead boolean default false,
  p_created_from timestamptz default null, p_created_to timestamptz default null,
  p_before uuid default null, p_limit integer default 50
) returns setof windlass.run_view
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_ids uuid[];
begin
  select array_agg(i.id) into v_ids
    from windlass.list_ids(p_tenant, p_status, p_job, p_queue, p_tag, p_failure, p_dead,
                           p_created_from, p_created_to, p_before,
                           least(p_limit, 1000)) as i(id);
  return query select * from windlass.get_runs(p_tenant, v_ids);
end
$$;
