-- Look at runs that were woken (see domain/child.py), at most p_limit wakes:
--   a parent that waits, and whose children of that step have all ended, becomes ready;
--   a child that is held, and has room now, becomes ready;
--   a run that comes after others is decided, if they have ended (312_look_at_follower.sql);
--   the children of a parent that was canceled are canceled, and those of steps that it begins anew;
--   the shards of a batch pause, go on and end with it (311_lead_shards.sql).
-- Returns the runs that became ready.
--
-- Nothing here is waited for. If somebody has the parent's position locked, they may have looked at its
-- children before the last one ended, so the wake is kept, and looked at again soon. If not, they have not
-- begun to park it, and will see what we see. A run in a queue will be claimed, and looks itself.
create or replace function windlass.tend(p_limit integer default 500)
returns table (tenant text, id uuid)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_tenants text[];
  v_runs uuid[];
  v_parked boolean[];
  v_running boolean[];
  v_moves windlass.move[];
  v_now timestamptz;
  v_run record;
  v_led uuid[];
begin
  with taken as (
    delete from windlass.wakes w
     where w.n = any (array (select x.n from windlass.wakes x order by x.n limit p_limit
                                for update skip locked))
    returning w.tenant, w.run
  )
  select array_agg(t.tenant order by t.tenant, t.run), array_agg(t.run order by t.tenant, t.run)
    into v_tenants, v_runs
    from (select distinct x.tenant, x.run from taken x) t;
  if v_runs is null then
    return;
  end if;
  select array_agg((select true from windlass.timers t
                     where t.tenant = w.tenant and t.id = w.run for update skip locked) order by w.n)
    into v_parked
    from unnest(v_tenants, v_runs) with ordinality as w(tenant, run, n);
  select array_agg((select true from windlass.leases l
                     where l.tenant = w.tenant and l.id = w.run for update skip locked) order by w.n)
    into v_running
    from unnest(v_tenants, v_runs) with ordinality as w(tenant, run, n);
  -- In a statement after those: whoever parked one meanwhile is done.
  insert into windlass.wakes (tenant, run)
  select w.tenant, w.run
    from unnest(v_tenants, v_runs, v_parked, v_running) as w(tenant, run, parked, running)
   where w.parked is null and w.running is null
     and (exists (select 1 from windlass.timers t where t.tenant = w.tenant and t.id = w.run)
          or exists (select 1 from windlass.leases l where l.tenant = w.tenant and l.id = w.run));
  v_now := windlass.now();
  with answered as (
    delete from windlass.timers t using unnest(v_tenants, v_runs, v_parked) as w(tenant, run, parked)
     where t.tenant = w.tenant and t.id = w.run and w.parked and t.why = 'wait'
       and windlass.is_answered(t.tenant, t.id, t.waits)
    returning t.*
  )
  select array_agg(windlass.move_from_timer(a::windlass.timers, 'due')) into v_moves from answered a;
  perform windlass.make_moves(v_moves, v_now);
  for v_run in select w.tenant, w.run from unnest(v_tenants, v_runs) as w(tenant, run) loop
    if windlass.ends_children(v_run.tenant, v_run.run) is not null then
      perform windlass.cancel_children(v_run.tenant, v_run.run, p_limit, false);
    else
      perform windlass.cancel_children(v_run.tenant, v_run.run, p_limit, true);
      v_led := windlass.lead_shards(v_run.tenant, v_run.run, p_limit);
      return query select v_run.tenant, x.id from unnest(v_led) as x(id);
      if v_led is not null then
        v_moves := v_moves || windlass.admit_children(v_run.tenant, v_run.run);
      end if;
      v_moves := v_moves || windlass.look_at_follower(v_run.tenant, v_run.run);
    end if;
  end loop;
  return query select m.tenant, m.id from unnest(v_moves) m;
end
$$;

-- Let children of a run go that are held, as far as their steps allow; returns what was moved. What somebody
-- has locked is left for the next look, for which a wake is kept.
create or replace function windlass.admit_children(p_tenant text, p_run uuid)
returns windlass.move[]
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_step record;
  v_parallel integer;
  v_free integer;
  v_ids uuid[];
  v_moves windlass.move[];
  v_all windlass.move[] := '{}';
begin
  for v_step in
    select s.generation, s.path from windlass.steps s
     where s.tenant = p_tenant and s.run = p_run and s.kind = 'children' and s.state = 'waiting'
       and s.value is not null and s.generation >= 0
     order by s.generation, s.path
  loop
    v_parallel := null;
    select coalesce((s.value ->> 'parallel')::integer, 1) into v_parallel from windlass.steps s
     where s.tenant = p_tenant and s.run = p_run and s.generation = v_step.generation
       and s.path = v_step.path for update skip locked;
    if v_parallel is null then
      insert into windlass.wakes (tenant, run) values (p_tenant, p_run);
      continue;
    end if;
    select v_parallel - count(*) into v_free from windlass.children c
     where c.parent = p_run and c.tenant = p_tenant and c.generation = v_step.generation
       and c.path = v_step.path and c.state = 'live';
    continue when v_free <= 0;
    select array_agg(t.id) into v_ids
      from (select c.id from windlass.children c
             where c.parent = p_run and c.tenant = p_tenant and c.generation = v_step.generation
               and c.path = v_step.path and c.state = 'held'
             order by c.n limit v_free) h
     cross join lateral (select t.id from windlass.timers t
                          where t.tenant = p_tenant and t.id = h.id and t.why = 'held'
                            for update skip locked) t;
    if coalesce(cardinality(v_ids), 0) < v_free and exists (
         select 1 from windlass.children c
          where c.parent = p_run and c.tenant = p_tenant and c.generation = v_step.generation
            and c.path = v_step.path and c.state = 'held' and (c.id = any (v_ids)) is not true) then
      insert into windlass.wakes (tenant, run) values (p_tenant, p_run);
    end if;
    update windlass.children c set state = 'live'
     where c.tenant = p_tenant and c.id = any (v_ids);
    with freed as (
      delete from windlass.timers t where t.tenant = p_tenant and t.id = any (v_ids) returning t.*
    )
    select array_agg(windlass.move_from_timer(f::windlass.timers, 'due')) into v_moves from freed f;
    perform windlass.make_moves(v_moves, windlass.now());
    v_all := v_all || v_moves;
  end loop;
  return v_all;
end
$$;

-- Why the children of a run are to end, if they are. Those of a batch end with it, however it does.
create or replace function windlass.ends_children(p_tenant text, p_run uuid) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return (select case when r.status = 'canceled' then 'its parent was canceled'
                      when r.status = 'failed'
                           and exists (select 1 from windlass.batches b
                                        where b.tenant = p_tenant and b.run = p_run)
                      then 'its batch has failed' end
            from windlass.runs r where r.tenant = p_tenant and r.id = p_run);
end
$$;

-- End children of a run that has ended, or those that it began anew without, at most p_limit; what is
-- left, or locked, for the next look. A run that was reopened meanwhile keeps its children. The shards of
-- a batch that was terminated are, too: also those that were asked to end before.
create or replace function windlass.cancel_children(
  p_tenant text, p_run uuid, p_limit integer, p_detached boolean
)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_ids uuid[];
  v_id uuid;
  v_done integer := 0;
  v_told boolean := false;
  v_why text := windlass.ends_children(p_tenant, p_run);
  v_forced boolean := not p_detached
    and exists (select 1 from windlass.batches b
                 where b.tenant = p_tenant and b.run = p_run and b.forced);
begin
  if v_why is null and not p_detached then
    return;
  end if;
  select array_agg(c.id order by c.id) into v_ids
    from (select c.id from windlass.children c
           where c.parent = p_run and c.tenant = p_tenant and c.state <> 'ended'
             and (c.detached or not p_detached)
             and (v_forced
                  or not exists (select 1 from windlass.leases l
                                  where l.tenant = c.tenant and l.id = c.id and l.intent = 'cancel'))
           limit p_limit + 1) c;
  foreach v_id in array coalesce(v_ids[1:p_limit], '{}') loop
    perform 1 from windlass.timers t where t.tenant = p_tenant and t.id = v_id for update skip locked;
    if not found then
      perform 1 from windlass.ready q
        where q.tenant = p_tenant and q.id = v_id for update skip locked;
    end if;
    if not found then
      perform 1 from windlass.leases l
        where l.tenant = p_tenant and l.id = v_id for update skip locked;
      v_told := v_told or found;
    end if;
    if not found then
      continue;
    elsif v_forced then
      perform windlass.end_now(p_tenant, v_id, 'its batch was terminated');
    else
      perform windlass.stop_run(p_tenant, v_id,
                                case when p_detached then 'its parent began anew' else v_why end);
    end if;
    v_done := v_done + 1;
  end loop;
  if v_done < cardinality(v_ids) then
    insert into windlass.wakes (tenant, run) values (p_tenant, p_run);
  end if;
  if v_told then
    perform pg_notify('windlass', '');  -- so that their workers ask for orders now
  end if;
end
$$;
