-- Runs that had to be done by p_until end failed/deadline, at most p_limit: those that wait, and those
-- that are running although the worker that holds them has had a whole lease of its own to end them.
-- Its attempt is recorded as a timeout; what it tells later finds no lease. Returns how many.
create or replace function windlass.overrun(p_limit integer, p_until timestamptz) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_moved json;
  v_count integer := 0;
  v_now timestamptz;
begin
  with late as materialized (
    select t.place
      from (select t.ctid as place, t.tenant, t.id from windlass.timers t
             where t.deadline_at <= p_until order by t.deadline_at for update skip locked) t
     cross join lateral (select 1 from windlass.runs r
                          where r.tenant = t.tenant and r.id = t.id
                            for no key update skip locked) r
     limit p_limit
  ), moved as (
    delete from windlass.timers t where t.ctid = any (array (select l.place from late l))
    returning t.*
  )
  select json_agg(m) into v_moved from moved m;
  if v_moved is not null then
    v_count := windlass.end_waiting(v_moved, 'failed', 'deadline', null, windlass.now());
  end if;
  with late as materialized (
    select e.place
      from (select e.ctid as place, e.tenant, e.id from windlass.ready e
             where e.deadline_at <= p_until order by e.deadline_at for update skip locked) e
     cross join lateral (select 1 from windlass.runs r
                          where r.tenant = e.tenant and r.id = e.id
                            for no key update skip locked) r
     limit p_limit - v_count
  ), moved as (
    delete from windlass.ready r where r.ctid = any (array (select l.place from late l))
    returning r.*
  )
  select json_agg(m) into v_moved from moved m;
  if v_moved is not null then
    v_count := v_count + windlass.end_waiting(v_moved, 'failed', 'deadline', null, windlass.now());
  end if;
  with late as materialized (
    select l.place
      from (select l.ctid as place, l.tenant, l.id from windlass.leases l
             where l.deadline_at <= p_until
               and l.deadline_at + (select w.alive_until - w.renewed_at from windlass.workers w
                                     where w.id = l.worker) <= p_until
             order by l.deadline_at for update skip locked) l
     cross join lateral (select 1 from windlass.runs r
                          where r.tenant = l.tenant and r.id = l.id
                            for no key update skip locked) r
     limit p_limit - v_count
  ), moved as (
    delete from windlass.leases l where l.ctid = any (array (select o.place from late o))
    returning l.tenant, l.id, l.job, l.queue, l.attempt, l.failures + 1 as failures,
              l.crash_count, l.token, l.seq, l.worker, l.started_at
  )
  select json_agg(m) into v_moved from moved m;
  if v_moved is not null then
    v_now := windlass.now();
    v_count := v_count + windlass.end_waiting(v_moved, 'failed', 'deadline', null, v_now);
    with moved as materialized (
      select m.* from json_to_recordset(v_moved)
             as m(tenant text, id uuid, attempt integer, token bigint, worker text,
                  started_at timestamptz)
       order by m.tenant, m.id
    ), attempted as (
      insert into windlass.attempts (tenant, run, attempt, token, worker, outcome,
                                     started_at, finished_at)
      select m.tenant, m.id, m.attempt, m.token, m.worker, 'timeout', m.started_at, v_now
        from moved m
    )
    update windlass.runs r set started_at = m.started_at
      from moved m where r.tenant = any (array[m.tenant]) and r.id = m.id;
  end if;
  return v_count;
end
$$;
