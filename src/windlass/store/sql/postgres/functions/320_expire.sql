-- Waiting runs that had to start by p_until end failed/expired, at most p_limit. Returns how many.
create or replace function windlass.expire(p_limit integer, p_until timestamptz) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_moved json;
  v_count integer := 0;
begin
  with late as materialized (
    select t.ctid as place from windlass.timers t
     where t.expires_at <= p_until order by t.expires_at limit p_limit for update skip locked
  ), moved as (
    delete from windlass.timers t where t.ctid = any (array (select l.place from late l))
    returning t.*
  )
  select json_agg(m) into v_moved from moved m;
  if v_moved is not null then
    v_count := windlass.end_waiting(v_moved, 'failed', 'expired', null, windlass.now());
  end if;
  with late as materialized (
    select r.ctid as place from windlass.ready r
     where r.expires_at <= p_until order by r.expires_at limit p_limit - v_count
       for update skip locked
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
