-- A page of runs, newest id first. The next page: p_before = the last id of this one. Several statuses
-- at once are p_statuses. A filter that few runs fit reads many of them.
--   select id, job, status from windlass.list_runs('default', p_status => 'failed');
create or replace function windlass.list_runs(
  p_tenant text, p_status text default null, p_job text default null, p_queue text default null,
  p_tag text default null, p_failure text default null, p_dead boolean default false,
  p_created_from timestamptz default null, p_created_to timestamptz default null,
  p_before uuid default null, p_limit integer default 50, p_key text default null,
  p_schedule uuid default null, p_worker text default null, p_error text default null,
  p_finished_from timestamptz default null, p_finished_to timestamptz default null,
  p_statuses text[] default null
) returns setof windlass.run_view
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_statuses text[] := coalesce(p_statuses, case when p_status is not null then array[p_status] end);
  v_filter windlass.run_filter;
  v_found record;
  v_left integer := least(p_limit, 1000);
begin
  if p_dead or p_failure is not null or p_error is not null then
    v_statuses := array(select 'failed' where v_statuses is null or 'failed' = any (v_statuses));
  end if;
  v_filter := row(p_tenant, v_statuses, p_job, p_queue, p_tag, p_key, p_schedule, p_worker, p_failure,
                  p_error, p_dead, p_created_from, p_created_to, p_finished_from, p_finished_to,
                  p_before, v_left);
  loop
    select * into v_found from windlass.find_ids(v_filter);
    return query select * from windlass.get_runs(p_tenant, v_found.ids);
    v_left := v_left - cardinality(v_found.ids);
    exit when v_left <= 0 or v_found.next is null;
    v_filter.before := v_found.next;
    v_filter."limit" := v_left;
  end loop;
end
$$;
