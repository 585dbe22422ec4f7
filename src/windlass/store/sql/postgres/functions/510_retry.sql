-- Reopen a failed, canceled or stale run: queued, with a fresh budget. Token, attempt and seq
-- go on; failures and crash_count start at zero. Returns the run.
create or replace function windlass.retry(
  p_tenant text, p_id uuid, p_max_attempts integer default null
) returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz;
  v_run windlass.runs;
  v_status text;
begin
  if p_max_attempts not between 1 and 1000000 then  -- as for windlass.check_options
    raise exception 'p_max_attempts must be of 1 to 1000000'
      using errcode = 'WL005',
            detail = json_build_array('retry', 'takes max_attempts of 1 to 1,000,000',
                                      'max_attempts')::text;
  end if;
  v_run := windlass.reopen_run(p_tenant, p_id, p_max_attempts);
  if v_run.id is null then
    select v.status into v_status from windlass.run_view v
      where v.tenant = p_tenant and v.id = p_id;
    if not found then
      raise exception 'there is no run %', p_id
        using errcode = 'WL001', detail = json_build_array(p_id)::text;
    end if;
    raise exception 'run % is %, it cannot be retried', p_id, v_status
      using errcode = 'WL002', detail = json_build_array(p_id, v_status, 'retry')::text;
  end if;
  v_now := windlass.now();  -- once the row is ours: a run's events do not go back
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
