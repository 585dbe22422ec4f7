-- Take back the runs of workers that were dead at p_now: those whose alive_until had passed, unless
-- p_spare and an outage excuses them (windlass.is_excused), and leases without a worker. Each goes to
-- its queue with crash_count + 1; at p_max_crashes it ends failed/crashed; under a cancel intent it
-- ends canceled. At most p_limit runs.
--
-- Of several runs that a worker held when it died, one is to blame at most: after the first
-- crash those are given up only at ten times the limit (domain/blame.py).
-- Returns {"reaped", "crashed", "workers", "spared", "more"}.
create or replace function windlass.reap(
  p_max_crashes integer, p_limit integer, p_now timestamptz, p_every interval, p_spare boolean
) returns json
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
  v_left integer := p_limit;
  v_alone boolean;
  v_worker record;
  v_workers text[] := '{}';
  v_spared integer;
  v_reaped integer := 0;
  v_crashed integer := 0;
  v_some record;
  v_places tid[];
begin
  -- The row lock asks again whether it is still dead: a renewal may just have come.
  for v_worker in
    select w.id, w.worker_no from windlass.workers w
     where w.alive_until <= p_now
       and not (p_spare
                and windlass.is_excused(w.renewed_at, w.alive_until, p_now, p_every))
     order by w.alive_until limit p_limit for update skip locked
  loop
    exit when v_left <= 0;
    select coalesce(array_agg(l.place), '{}') into v_places
      from (select l.place
              from (select l.ctid as place, l.tenant, l.id from windlass.leases l
                     where l.worker_no = v_worker.worker_no for update skip locked) l
             cross join lateral (select 1 from windlass.runs r
                                  where r.tenant = l.tenant and r.id = l.id
                                    for no key update skip locked) r
             limit v_left) l;
    select count(*) = 1 into v_alone
      from (select 1 from windlass.leases l where l.worker_no = v_worker.worker_no limit 2) l;
    select * into v_some
      from windlass.take_back(v_places, windlass.crash_limit(p_max_crashes, v_alone));
    v_left := v_left - cardinality(v_places);
    v_reaped := v_reaped + v_some.reaped;
    v_crashed := v_crashed + v_some.crashed;
    v_workers := v_workers || v_worker.id;
    -- Also where the limit leaves some of its leases for the next time: it must not be revived
    -- by a renewal in between. A lease without a worker is dead.
    delete from windlass.workers w where w.id = v_worker.id;
  end loop;
  -- One probe of the index for each worker with leases.
  with recursive holder (worker_no) as (
    (select l.worker_no from windlass.leases l order by l.worker_no limit 1)
    union all
    select l.worker_no
      from holder h
     cross join lateral (select l.worker_no from windlass.leases l
                          where l.worker_no > h.worker_no order by l.worker_no limit 1) l
  )
  select coalesce(array_agg(l.place), '{}') into v_places
    from (select l.place
            from holder h
           cross join lateral (select l.ctid as place, l.tenant, l.id from windlass.leases l
                                where l.worker_no = h.worker_no for update skip locked) l
           cross join lateral (select 1 from windlass.runs r
                                where r.tenant = l.tenant and r.id = l.id
                                  for no key update skip locked) r
           where (select true from windlass.workers w
                   where w.worker_no = h.worker_no limit 1) is null
           limit v_left) l;
  select * into v_some from windlass.take_back(v_places, windlass.crash_limit(p_max_crashes, false));
  v_left := v_left - cardinality(v_places);
  select count(*) into v_spared from windlass.workers w
   where p_spare and w.alive_until <= p_now
     and windlass.is_excused(w.renewed_at, w.alive_until, p_now, p_every);
  return json_build_object('reaped', v_reaped + v_some.reaped,
                           'crashed', v_crashed + v_some.crashed, 'workers', v_workers,
                           'spared', v_spared, 'more', v_left <= 0);
end
$$;
