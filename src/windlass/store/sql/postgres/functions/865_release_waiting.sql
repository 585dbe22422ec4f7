-- Slots that wait become runs, the oldest of each schedule that is enabled and has no live run; at
-- most p_limit schedules. Any process may do it, any number at once. Returns {"now", "fired":
-- [{tenant, schedule, slot, run, status}], "more"}.
create or replace function windlass.release_waiting(p_limit integer default 100) returns json
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
  v_tenants text[];
  v_schedules uuid[];
  v_now timestamptz;
  v_items json;
  v_fired json;
begin
  with recursive owner (tenant, schedule) as (
    -- One probe of the index for each schedule of which a slot waits.
    (select k.tenant, k.schedule from windlass.schedule_slots k
      where k.outcome = 'waiting' order by k.tenant, k.schedule limit 1)
    union all
    select k.tenant, k.schedule
      from owner o
     cross join lateral (select k.tenant, k.schedule from windlass.schedule_slots k
                          where k.outcome = 'waiting'
                            and (k.tenant, k.schedule) > (o.tenant, o.schedule)
                          order by k.tenant, k.schedule limit 1) k
  ), free as materialized (
    select o.tenant, o.schedule from owner o
     where (select true from windlass.schedule_live l
             cross join lateral (select r.status from windlass.runs r
                                  where r.tenant = l.tenant and r.id = l.run limit 1) r
             where l.tenant = o.tenant and l.schedule = o.schedule and r.status is null
             limit 1) is null
  ), held as materialized (
    select f.tenant, f.schedule
      from free f
     cross join lateral (select 1 from windlass.schedules s
                          where s.tenant = f.tenant and s.id = f.schedule and s.enabled
                            for update skip locked) s
     limit p_limit
  )
  select array_agg(h.tenant), array_agg(h.schedule) into v_tenants, v_schedules from held h;
  v_now := windlass.now();  -- once the rows are ours: events do not go back
  if v_tenants is not null then
    -- Under the lock, look again: somebody may have been faster.
    perform windlass.prune_live(v_tenants, v_schedules,
                                array_fill(null::integer, array[cardinality(v_tenants)]));
    with head as materialized (
      select h.tenant, h.schedule, k.slot, k.pending
        from unnest(v_tenants, v_schedules) as h(tenant, schedule)
       cross join lateral (select k.slot, k.pending from windlass.schedule_slots k
                            where k.tenant = h.tenant and k.schedule = h.schedule
                              and k.outcome = 'waiting'
                            order by k.slot limit 1) k
       where (select true from windlass.schedule_live l
               where l.tenant = h.tenant and l.schedule = h.schedule limit 1) is null
    ), marked as (
      update windlass.schedule_slots k
         set outcome = 'fired', run = (h.pending ->> 'id')::uuid, at = v_now, pending = null
        from head h
       where k.tenant = any (array[h.tenant]) and k.schedule = h.schedule
         and k.slot = h.slot
    ), counted as (
      update windlass.schedules s set fired = s.fired + 1
        from head h where s.tenant = any (array[h.tenant]) and s.id = h.schedule
    )
    select json_agg(json_build_object('tenant', h.tenant, 'schedule', h.schedule,
                                      'slot', h.slot, 'run', h.pending)),
           json_agg(json_build_object(
             'tenant', h.tenant, 'schedule', h.schedule, 'slot', h.slot,
             'run', h.pending ->> 'id',
             'status', case when (h.pending ->> 'at')::timestamptz > v_now then 'scheduled'
                            else 'queued' end))
      into v_items, v_fired
      from head h;
    if v_items is not null then
      perform windlass.start_slots(v_items, v_now);
    end if;
  end if;
  return json_build_object('now', v_now, 'fired', coalesce(v_fired, '[]'),
                           'more', coalesce(cardinality(v_tenants), 0) >= p_limit);
end
$$;
