-- The schedules whose next slot has come, the longest overdue first, at most p_limit. Returns
-- {"now", "rows", "next_slot": the earliest that has not come yet, "more": the limit was hit,
-- "waiting": whether any slot waits for the end of an earlier run}. Nothing is locked: whoever
-- fires is judged by windlass.fire_schedules.
create or replace function windlass.due_schedules(p_limit integer default 100) returns json
language plpgsql stable security definer
set timezone = 'UTC'
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_now timestamptz := windlass.now();
  v_rows json;
  v_next timestamptz;
begin
  select json_agg(d) into v_rows
    from (select * from windlass.schedules s
           where s.enabled and s.next_slot <= v_now
           order by s.next_slot limit p_limit) d;
  select s.next_slot into v_next from windlass.schedules s
   where s.enabled and s.next_slot > v_now and s.next_slot < '9999-12-31Z'
   order by s.next_slot limit 1;
  return json_build_object(
    'now', v_now, 'rows', coalesce(v_rows, '[]'), 'next_slot', v_next,
    'more', coalesce(json_array_length(v_rows), 0) >= p_limit,
    'waiting', exists (select 1 from windlass.schedule_slots k where k.outcome = 'waiting'));
end
$$;
