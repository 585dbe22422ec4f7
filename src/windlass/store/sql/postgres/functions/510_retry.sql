-- Reopen a failed, canceled or stale run: queued, with a fresh budget. Token, attempt and seq
-- go on; failures and crash_count start at zero. Returns the run.
create or replace function windlass.retry(
  p_tenant text, p_id uuid, p_max_attempts integer default null
) returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_now timestamptz;
  v_run windlass.runs;
begin
  if p_max_attempts < 1 then
    raise exception 'max_attempts must be at least 1'
      using errcode = 'WL005',
            detail = json_build_array('retry', 'needs max_attempts of at least 1')::text;
  end if;
  -- Setting status to null is the mutex: of two that retry at once, one finds nothing.
  update windlass.runs r
     set status = null, failure = null, result = null, error = null, reason = null,
         started_at = null, finished_at = null, stale_at = null, expires_at = null,
         options = case when p_max_attempts is null then r.options
                        else (coalesce(r.options::jsonb, '{}')
                              || jsonb_build_object('max_attempts', p_max_attempts))::json end
   where r.tenant = p_tenant and r.id = p_id and r.status is not null
     and (r.status in ('failed', 'canceled') or r.stale_at is not null)
  returning * into v_run;
  if not found then
    select * into v_run from windlass.runs r where r.tenant = p_tenant and r.id = p_id;
    if not found then
      raise exception 'there is no run %', p_id
        using errcode = 'WL001', detail = json_build_array(p_id)::text;
    end if;
    select v.status into v_run.status from windlass.run_view v
      where v.tenant = p_tenant and v.id = p_id;
    raise exception 'run % is %, it cannot be retried', p_id, v_run.status
      using errcode = 'WL002',
            detail = json_build_array(p_id, v_run.status, 'retry')::text;
  end if;
  v_now := windlass.now();  -- once the row is ours: a run's events do not go back
  if v_run.schedule is not null then
    -- It lives again, and its schedule's overlap is judged by that. The lock waits for whoever
    -- is just judging, and keeps the schedule from being deleted meanwhile.
    insert into windlass.schedule_live (tenant, schedule, slot, run)
    select p_tenant, v_run.schedule, v_run.slot, p_id
      from windlass.schedules s
     where s.tenant = p_tenant and s.id = v_run.schedule for key share
    on conflict do nothing;
  end if;
  delete from windlass.failures f where f.tenant = p_tenant and f.id = p_id;
  insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                              attempt, failures, crash_count, token, seq)
  values (p_tenant, p_id, v_run.job, v_run.queue, -v_run.priority, v_now,
          v_run.attempt, 0, 0, v_run.token, v_run.seq + 1);
  insert into windlass.events (tenant, subject, seq, type, at, attempt, data)
  values (p_tenant, p_id, v_run.seq + 1, 'run.retried', v_now, v_run.attempt,
          case when p_max_attempts is not null
               then json_build_object('max_attempts', p_max_attempts) end);
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;
