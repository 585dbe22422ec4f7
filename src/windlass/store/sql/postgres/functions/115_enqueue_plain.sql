-- Enqueue a batch of runs without options (no key, delay, tags, expiry, deadline), by parallel arrays: the
-- same as windlass.enqueue_many without the reading of JSON. All have the same trace, and the same run in
-- whose handler they were enqueued, if any. All or none. Returns as that does.
create or replace function windlass.enqueue_plain(
  p_tenants text[], p_ids uuid[], p_jobs text[], p_versions text[], p_queues text[],
  p_priorities integer[], p_inputs json[], p_trace text default null,
  p_enqueued_by uuid default null
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz := windlass.now();
begin
  perform windlass.check_plain(p_tenants, p_ids, p_jobs, p_queues, p_priorities);
  perform windlass.check_json('input', p_inputs);
  perform windlass.check_trace(p_jobs[1], p_trace);
  insert into windlass.runs (tenant, id, job, job_version, queue, priority, input, trace,
                             enqueued_by, created_at, scheduled_for)
  select x.tenant, x.id, x.job, x.version, x.queue, x.priority,
         coalesce(x.input, windlass.default_input(x.tenant, x.job)), p_trace, p_enqueued_by,
         v_now, v_now
    from unnest(p_tenants, p_ids, p_jobs, p_versions, p_queues, p_priorities, p_inputs)
         as x(tenant, id, job, version, queue, priority, input)
   order by x.id, x.tenant;  -- in one order for everybody: two may have the same ids
  insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                              attempt, failures, crash_count, token, seq)
  select x.tenant, x.id, x.job, x.queue, -x.priority, v_now, 0, 0, 0, 0, 1
    from unnest(p_tenants, p_ids, p_jobs, p_queues, p_priorities)
         as x(tenant, id, job, queue, priority);
  insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
  select windlass.page_moment(), v_now, 1, 0, x.tenant, 'run.enqueued', array_agg(x.id)
    from unnest(p_tenants, p_ids) with ordinality as x(tenant, id, n)
   group by x.tenant, (x.n - 1) / 1000;  -- whoever reads a page reads all of it
  return json_build_object('now', v_now);
exception when unique_violation then
  -- An id is known: a repeat of a call whose reply was lost. The longer way sorts it out.
  return windlass.enqueue_many(
    (select json_agg(case when x.input is null then (row_to_json(x)::jsonb - 'input')::json
                          else row_to_json(x) end)
       from (select u.*, p_trace as trace, p_enqueued_by as enqueued_by
               from unnest(p_tenants, p_ids, p_jobs, p_versions, p_queues, p_priorities, p_inputs)
                    as u(tenant, id, job, job_version, queue, priority, input)) x), false);
end
$$;
