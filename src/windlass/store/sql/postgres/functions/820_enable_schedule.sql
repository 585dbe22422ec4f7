-- Pause a schedule (it has no next slot then) or resume it at p_next_slot. Nothing is changed
-- where it is so already, or where p_version is given and is not the schedule's: the next slot
-- was computed from another rule. Returns the row; null: there is none.
create or replace function windlass.enable_schedule(
  p_tenant text, p_id uuid, p_key text, p_enabled boolean,
  p_next_slot timestamptz default null, p_version bigint default null
) returns json
language plpgsql volatile security definer
set timezone = 'UTC'
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_row windlass.schedules := windlass.lock_schedule(p_tenant, p_id, p_key);
  v_now timestamptz := windlass.now();
begin
  perform windlass.check_instant(v_row.job, 'next_slot', p_next_slot);
  if v_row.id is null then
    return null;
  end if;
  if v_row.enabled = p_enabled or v_row.version <> p_version then
    return row_to_json(v_row);
  end if;
  update windlass.schedules s
     set enabled = p_enabled, next_slot = case when p_enabled then p_next_slot end,
         seq = s.seq + 1, updated_at = v_now
   where s.tenant = v_row.tenant and s.id = v_row.id
  returning * into v_row;
  insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
  values (v_row.tenant, v_row.id, v_row.seq,
          case when p_enabled then 'schedule.resumed' else 'schedule.paused' end, v_now, 0);
  return row_to_json(v_row);
end
$$;
