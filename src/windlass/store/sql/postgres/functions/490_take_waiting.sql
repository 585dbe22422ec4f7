-- Take a run that waits out of its queue or its timer, for a move by this verb (see
-- windlass.make_moves). All null: it does not wait, or there is no such run. A child that its siblings hold
-- back is held no more, if the verb takes it elsewhere.
create or replace function windlass.take_waiting(p_tenant text, p_id uuid, p_verb text)
returns windlass.move
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_ready windlass.ready;
  v_timer windlass.timers;
begin
  delete from windlass.ready q where q.tenant = p_tenant and q.id = p_id returning * into v_ready;
  if found then
    return windlass.move_from_ready(v_ready, p_verb);
  end if;
  delete from windlass.timers t where t.tenant = p_tenant and t.id = p_id returning * into v_timer;
  if found then
    if v_timer.why = 'held' and p_verb in ('pause', 'reschedule', 'restart') then
      -- Nobody would let it go any more: it counts as one of those that may run.
      update windlass.children c set state = 'live'
       where c.tenant = p_tenant and c.id = p_id and c.state = 'held';
    end if;
    return windlass.move_from_timer(v_timer, p_verb);
  end if;
  return null;
end
$$;
