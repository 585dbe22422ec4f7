-- Runs that have been running for p_late seconds longer than their timeout, and those whose worker
-- has been dead for as long, the oldest first, over all tenants. All leases are read: there are no
-- more of them than seats.
create or replace function windlass.inspect_overdue(
  p_late double precision default 60, p_most integer default 100
) returns table (
  tenant text, id uuid, job text, worker text, started_at timestamptz,
  timeout double precision, alive_until timestamptz, seen_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := windlass.now();
  v_before timestamptz := v_now - make_interval(secs => p_late);
begin
  return query
    select l.tenant, l.id, l.job, windlass.worker_name(l.worker_no), l.started_at, t.timeout, w.alive_until, v_now
      from windlass.leases l
      join windlass.runs r on r.tenant = l.tenant and r.id = l.id
      left join windlass.jobs j on j.tenant = l.tenant and j.name = l.job
      left join windlass.workers w on w.worker_no = l.worker_no
     cross join lateral (
       select coalesce(case when json_typeof(r.options -> 'timeout') = 'number'
                            then (r.options ->> 'timeout')::double precision end,
                       j.timeout) as timeout) t
     where coalesce(w.alive_until, l.started_at) <= v_before
        or l.started_at + make_interval(secs => t.timeout) <= v_before
     order by l.started_at, l.id limit p_most;
end
$$;
