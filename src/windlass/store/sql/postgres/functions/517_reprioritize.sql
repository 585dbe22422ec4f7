-- Give a run that has not started another priority, another queue, or both; null leaves it as it is.
-- It keeps its time: in its new place it comes before what became ready after it. Harmless to repeat.
-- A run that is running or has ended raises WL002, an unknown one WL001. Returns the run.
create or replace function windlass.reprioritize(
  p_tenant text, p_id uuid, p_priority integer default null, p_queue text default null,
  p_by text default null
) returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_move windlass.move;
begin
  perform windlass.check_priority('reprioritize', p_priority),
          windlass.check_queue('reprioritize', p_queue);
  -- It may move between two looks, see windlass.stop_run.
  for v_round in 1..20 loop
    v_move := windlass.take_waiting(p_tenant, p_id, 'reprioritize');
    exit when v_move.id is not null;
    perform windlass.check_verb(p_tenant, p_id, 'reprioritize');
  end loop;
  if v_move.id is null then
    raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
  end if;
  v_move.queue := coalesce(p_queue, v_move.queue);
  v_move.rank := coalesce(-p_priority, v_move.rank);
  v_move.data := json_build_object('priority', -v_move.rank, 'queue', v_move.queue);
  perform windlass.make_moves(array[v_move], windlass.now());
  update windlass.runs r set queue = v_move.queue, priority = -v_move.rank
   where r.tenant = p_tenant and r.id = p_id;
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'reprioritize', p_by, null,
                              json_strip_nulls(json_build_object('priority', p_priority, 'queue', p_queue)));
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;
