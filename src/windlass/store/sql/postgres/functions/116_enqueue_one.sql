-- Enqueue one run without options, the usual case, by a short way: it writes what windlass.enqueue would
-- write. Whatever is not plainly right, and an id that is known, goes the longer way.
-- Returns as windlass.enqueue_many does.
--
-- p_hint: hint to workers with the commit, which saves the caller a second call; the answer says whether
-- that was done (hinted). Commits with a hint are flushed one after the other, on the whole server, so
-- nobody ever waits for another's: who finds that somebody is about to hint leaves it to the caller.
create or replace function windlass.enqueue_one(
  p_tenant text, p_id uuid, p_job text, p_version text, p_queue text, p_priority integer,
  p_input json, p_trace text default null, p_enqueued_by uuid default null,
  p_hint boolean default false
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz := windlass.now();
  v_hinted boolean := false;
begin
  if p_id is not null and p_tenant ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$'
     and windlass.is_name(p_job) and windlass.is_name(p_queue)
     and p_priority between -32768 and 32767
     and (p_trace is null or length(p_trace) between 1 and 200)
     and not windlass.needs_judging(p_input::text, true) then
    insert into windlass.runs (tenant, id, job, job_version, queue, priority, input, trace,
                               enqueued_by, created_at, scheduled_for)
    values (p_tenant, p_id, p_job, p_version, p_queue, p_priority, p_input, p_trace,
            p_enqueued_by, v_now, v_now)
    on conflict do nothing;
    if found then
      insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                                  attempt, failures, crash_count, token, seq)
      values (p_tenant, p_id, p_job, p_queue, -p_priority, v_now, 0, 0, 0, 0, 1);
      insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
      values (windlass.page_moment(), v_now, 1, 0, p_tenant, 'run.enqueued', array[p_id]);
      if p_hint and pg_try_advisory_xact_lock(hashtextextended('windlass.hint', 0)) then
        perform pg_notify('windlass', '');
        v_hinted := true;
      end if;
      return json_build_object('now', v_now, 'hinted', v_hinted);
    end if;
  end if;
  return (
    select json_build_object('now', e.created_at, 'existing', case when not e.created then
             json_build_array(json_build_object(
               'n', 1, 'run', e.id, 'status', e.status, 'created_at', e.created_at,
               'scheduled_for', e.scheduled_for)) end)
      from windlass.enqueue(p_job, p_input, p_id, p_tenant, p_queue, p_priority,
                            p_job_version => p_version, p_trace => p_trace,
                            p_enqueued_by => p_enqueued_by) e);
end
$$;
