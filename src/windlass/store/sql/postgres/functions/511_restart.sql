-- Let a run that does not run begin anew: queued, with a fresh budget. Its steps are forgotten: all of them, or,
-- with p_step, that one and those that were recorded after it. They are kept in a generation of their own, as
-- records of their events; what they have started goes with them, and is canceled if it lives. Signals that
-- they took may be taken again. A step that is
-- not recorded raises WL014, a running run WL002. Returns the run.
create or replace function windlass.restart(
  p_tenant text, p_id uuid, p_step text default null, p_by text default null
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
  v_paths text[];
  v_seq integer;
  v_known boolean;
begin
  -- It may move between two looks, see windlass.stop_run.
  for v_round in 1..20 loop
    v_move := windlass.take_waiting(p_tenant, p_id, 'restart');
    exit when v_move.id is not null;
    v_move := windlass.reopen_run(p_tenant, p_id, 'restart');
    exit when v_move.id is not null;
    perform windlass.check_verb(p_tenant, p_id, 'restart');
  end loop;
  if v_move.id is null then
    raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
  end if;
  perform windlass.let_go(p_tenant, p_id, v_move.job);
  if p_step is not null then
    -- Those that failed may have been forgotten just now. A phase that has begun has only steps in it.
    select true, min(s.seq) into v_known, v_seq from windlass.steps s
     where s.tenant = p_tenant and s.run = p_id and s.generation in (0, -v_move.attempt)
       and (s.path = p_step or starts_with(s.path, p_step || '/'))
    having count(*) > 0;
    if v_known is null then
      raise exception 'run % has recorded no step %', p_id, p_step
        using errcode = 'WL014', detail = json_build_array(p_id, p_step)::text;
    end if;
  end if;
  update windlass.steps s set generation = -v_move.attempt
   where s.tenant = p_tenant and s.run = p_id and s.generation = 0
     and (p_step is null or s.seq is null or s.seq >= v_seq or s.path = p_step
          or starts_with(s.path, p_step || '/'));
  select array_agg(s.path) into v_paths from windlass.steps s
   where s.tenant = p_tenant and s.run = p_id and s.generation = -v_move.attempt
     and (p_step is null or s.seq is null or s.seq >= v_seq or s.path = p_step
          or starts_with(s.path, p_step || '/'));
  -- In one order: others may be ending several of them now.
  perform 1 from windlass.children c
    where c.parent = p_id and c.tenant = p_tenant and c.path = any (v_paths)
    order by c.id for update;
  update windlass.children c
     set generation = case when c.generation = 0 then -v_move.attempt else c.generation end,
         detached = c.state <> 'ended'
   where c.parent = p_id and c.tenant = p_tenant and c.generation in (0, -v_move.attempt)
     and c.path = any (v_paths);
  update windlass.signals g set taken_by = null
   where g.tenant = p_tenant and g.run = p_id and g.generation = 0
     and g.taken_by = any (v_paths);
  delete from windlass.progress p where p.tenant = p_tenant and p.id = p_id;
  insert into windlass.wakes (tenant, run)
  select p_tenant, p_id
   where exists (select 1 from windlass.children c
                  where c.parent = p_id and c.tenant = p_tenant and c.detached
                    and c.state <> 'ended');
  v_move.failures := 0;
  v_move.crash_count := 0;
  v_move.waits := null;
  v_move.data := case when p_step is not null then json_build_object('step', p_step) end;
  perform windlass.make_moves(array[v_move], windlass.now());
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'restart', p_by, null, v_move.data);
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;
