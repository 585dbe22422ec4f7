-- Stop a run for now. One that has not started, sleeps or waits is paused at once; one that is running is
-- asked to pause: its worker is told at the next renewal, and its handler stops at its next step, wait or
-- checkpoint. Harmless to repeat; a run that was asked to end stays asked to end. One that has ended raises
-- WL002, an unknown one WL001. Returns the run.
create or replace function windlass.pause(
  p_tenant text, p_id uuid, p_reason text default null, p_by text default null
)
returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_reason text := windlass.check_words('pause', 'reason', p_reason, 10000);
begin
  perform windlass.pause_run(p_tenant, p_id, v_reason);
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'pause', p_by, v_reason, null);
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;

-- The same for its batch, which is no operator; whether a worker is to be told.
create or replace function windlass.pause_run(p_tenant text, p_id uuid, p_reason text)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_place record;
begin
  select h.place, h.seq, h.attempt into v_place from windlass.hold_live(p_tenant, p_id, 'pause') h;
  if v_place.place = 'leases' then
    update windlass.leases l
       set intent = 'pause', reason = p_reason, seq = l.seq + 1
     where l.tenant = p_tenant and l.id = p_id and l.intent is null;
    if found then
      insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
      values (p_tenant, p_id, v_place.seq + 1, 'run.pause_requested', windlass.now(), v_place.attempt,
              case when p_reason is not null then json_build_object('reason', p_reason) end);
      return true;
    end if;
  elsif v_place.place = 'ready'
        or not exists (select 1 from windlass.timers t
                        where t.tenant = p_tenant and t.id = p_id and t.why = 'paused') then
    perform windlass.put_aside(p_tenant, p_id, p_reason);
  end if;
  return false;
end
$$;
