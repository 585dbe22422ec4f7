-- Take a failed, canceled or stale run out of its end: its record is that of a live run again, it is
-- no dead letter, and its schedule counts it. Token, attempt and seq are in the record returned; to
-- give it its position is for the caller, in this transaction. All null: there is no such run, or
-- it is not one of these.
create or replace function windlass.reopen_run(
  p_tenant text, p_id uuid, p_max_attempts integer default null
) returns windlass.runs
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_run windlass.runs;
begin
  -- Setting status to null is the mutex: of two that reopen at once, one finds nothing.
  update windlass.runs r
     set status = null, failure = null, result = null, error = null, reason = null,
         started_at = null, finished_at = null, stale_at = null, expires_at = null,
         deadline_at = null,
         options = case when p_max_attempts is null then r.options
                        else (coalesce(r.options::jsonb, '{}')
                              || jsonb_build_object('max_attempts', p_max_attempts))::json end
   where r.tenant = p_tenant and r.id = p_id and r.status is not null
     and (r.status in ('failed', 'canceled') or r.stale_at is not null)
  returning * into v_run;
  if not found then
    return null;
  end if;
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
  return v_run;
end
$$;
