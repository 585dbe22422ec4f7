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
  v_moved json;
  v_count integer := 0;
begin
  with late as materialized (
    select t.place
      from (select t.ctid as place, t.tenant, t.id from windlass.timers t
             where t.expires_at <= p_until order by t.expires_at for update skip locked) t
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
    v_count := windlass.end_waiting(v_moved, 'failed', 'expired', null, windlass.now());
  end if;
  with late as materialized (
    select e.place
      from (select e.ctid as place, e.tenant, e.id from windlass.ready e
             where e.expires_at <= p_until order by e.expires_at for update skip locked) e
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
    v_count := v_count + windlass.end_waiting(v_moved, 'failed', 'expired', null, windlass.now());
  end if;
  return v_count;
end
$$;
