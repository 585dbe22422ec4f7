-- Runs that had to be done by p_until end failed/deadline, at most p_limit: those that wait, and those
-- that are running although the worker that holds them has had a whole lease of its own to end them.
-- Its attempt is recorded as a timeout; what it reports later finds no lease. Returns how many.
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
  v_moves windlass.move[] := '{}';
begin
  with late as materialized (
    select t.place
      from (select t.ctid as place, t.tenant, t.id from windlass.timers t
             where t.deadline_at <= p_until
             order by t.deadline_at for update skip locked) t
     cross join lateral (select 1 from windlass.runs r
                          where r.tenant = t.tenant and r.id = t.id
                            for no key update skip locked) r
     limit p_limit
  ), gone as (
    delete from windlass.timers t where t.ctid = any (array (select x.place from late x))
    returning windlass.move_from_timer(t, 'overrun') as move
  )
  select v_moves || coalesce(array_agg(g.move), '{}') into v_moves from gone g;
  with late as materialized (
    select q.place
      from (select q.ctid as place, q.tenant, q.id from windlass.ready q
             where q.deadline_at <= p_until
             order by q.deadline_at for update skip locked) q
     cross join lateral (select 1 from windlass.runs r
                          where r.tenant = q.tenant and r.id = q.id
                            for no key update skip locked) r
     limit p_limit - cardinality(v_moves)
  ), gone as (
    delete from windlass.ready q where q.ctid = any (array (select x.place from late x))
    returning windlass.move_from_ready(q, 'overrun') as move
  )
  select v_moves || coalesce(array_agg(g.move), '{}') into v_moves from gone g;
  with late as materialized (
    select l.place
      from (select l.ctid as place, l.tenant, l.id from windlass.leases l
             where l.deadline_at <= p_until
               and l.deadline_at + (select w.alive_until - w.renewed_at from windlass.workers w
                                     where w.worker_no = l.worker_no) <= p_until
             order by l.deadline_at for update skip locked) l
     cross join lateral (select 1 from windlass.runs r
                          where r.tenant = l.tenant and r.id = l.id
                            for no key update skip locked) r
     limit p_limit - cardinality(v_moves)
  ), gone as (
    delete from windlass.leases l where l.ctid = any (array (select x.place from late x))
    returning windlass.move_from_lease(l, 'overrun') as move
  )
  select v_moves || coalesce(array_agg(g.move), '{}') into v_moves from gone g;
  perform windlass.make_moves(v_moves, windlass.now());
  return cardinality(v_moves);
end
$$;
