-- Waiting runs that had to start by p_until end failed/expired, at most p_limit. Returns how many.
create or replace function windlass.expire(p_limit integer, p_until timestamptz) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_moves windlass.move[] := '{}';
begin
  with late as materialized (
    select t.place
      from (select t.ctid as place, t.tenant, t.id from windlass.timers t
             where t.expires_at <= p_until
             order by t.expires_at for update skip locked) t
     cross join lateral (select 1 from windlass.runs r
                          where r.tenant = t.tenant and r.id = t.id
                            for no key update skip locked) r
     limit p_limit
  ), gone as (
    delete from windlass.timers t where t.ctid = any (array (select x.place from late x))
    returning windlass.move_from_timer(t, 'expire') as move
  )
  select v_moves || coalesce(array_agg(g.move), '{}') into v_moves from gone g;
  with late as materialized (
    select q.place
      from (select q.ctid as place, q.tenant, q.id from windlass.ready q
             where q.expires_at <= p_until
             order by q.expires_at for update skip locked) q
     cross join lateral (select 1 from windlass.runs r
                          where r.tenant = q.tenant and r.id = q.id
                            for no key update skip locked) r
     limit p_limit - cardinality(v_moves)
  ), gone as (
    delete from windlass.ready q where q.ctid = any (array (select x.place from late x))
    returning windlass.move_from_ready(q, 'expire') as move
  )
  select v_moves || coalesce(array_agg(g.move), '{}') into v_moves from gone g;
  perform windlass.make_moves(v_moves, windlass.now());
  return cardinality(v_moves);
end
$$;
