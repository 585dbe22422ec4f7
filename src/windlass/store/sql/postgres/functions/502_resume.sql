-- Let a paused run go on: it goes back to its timer or its wait, or, if what it waited for has come
-- meanwhile, to its queue. Of one that runs, and was asked to pause, the request is taken back. Any other
-- live run stays as it is. One that has ended raises WL002, an unknown one WL001. Returns the run.
create or replace function windlass.resume(p_tenant text, p_id uuid, p_by text default null)
returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  perform windlass.resume_run(p_tenant, p_id);
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'resume', p_by, null, null);
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;

-- The same for its batch, which is no operator; whether it may be claimed now.
create or replace function windlass.resume_run(p_tenant text, p_id uuid)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_place record;
  v_timer windlass.timers;
  v_move windlass.move;
  v_now timestamptz;
begin
  select h.place, h.seq, h.attempt into v_place from windlass.hold_live(p_tenant, p_id, 'resume') h;
  v_now := windlass.now();
  if v_place.place = 'leases' then
    update windlass.leases l
       set intent = null, reason = null, seq = l.seq + 1
     where l.tenant = p_tenant and l.id = p_id and l.intent = 'pause';
    if found then
      insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
      values (p_tenant, p_id, v_place.seq + 1, 'run.resumed', v_now, v_place.attempt);
    end if;
  elsif v_place.place = 'timers' then
    delete from windlass.timers t
     where t.tenant = p_tenant and t.id = p_id and t.why = 'paused' returning * into v_timer;
    if found then
      v_move := windlass.move_from_timer(v_timer, null);
      v_move.why := v_timer.was_why;
      v_move.at := v_timer.was_due_at;
      v_move.was_why := null;
      v_move.was_due_at := null;
      -- Its position was locked by a statement before: whoever sent a signal meanwhile is seen.
      v_move.verb := case
        when v_timer.was_why is null or v_timer.was_due_at <= v_now
             or (v_timer.was_why = 'wait'
                 and windlass.is_answered(p_tenant, p_id, v_timer.waits)) then 'resume'
        when v_timer.was_why = 'wait' then 'resume_wait' else 'resume_timer' end;
      v_move.data := json_build_object('to', windlass.next_status('paused', v_move.verb));
      perform windlass.make_moves(array[v_move], v_now);
      -- Of a batch, its shards are to follow. Of a follower, what it comes after may have ended meanwhile.
      insert into windlass.wakes (tenant, run)
      select p_tenant, p_id
       where v_timer.was_why = 'held'
          or exists (select 1 from windlass.batches b
                      where b.tenant = p_tenant and b.run = p_id);
      return v_move.verb = 'resume';
    end if;
  end if;
  return false;
end
$$;
