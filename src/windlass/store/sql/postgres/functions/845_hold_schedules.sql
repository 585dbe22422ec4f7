-- Lock the schedules of decisions (see windlass.fire_schedules) that are as the decisions expect,
-- and return those decisions with what the lock made certain: n, the place in the list from 1;
-- the policy; the schedule's last event number. Of two decisions for one schedule the first counts.
-- What somebody else has locked is passed over: a schedule that is being fired or changed will not
-- be as expected. An operator's decisions wait instead.
create or replace function windlass.hold_schedules(p_decisions json) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_held json;
begin
  perform windlass.lock_schedule(x.tenant, x.id, null)
     from (select x.tenant, x.id
             from json_to_recordset(p_decisions) as x(tenant text, id uuid, advance boolean)
            where not x.advance order by x.tenant, x.id) x;
  with item as materialized (
    select x.*, row_number() over (partition by x.tenant, x.id order by x.n) as nth
      from rows from (json_to_recordset(p_decisions)
             as (tenant text, id uuid, version bigint, expected_slot timestamptz,
                 next_slot timestamptz, slots json, missed json, missed_count bigint,
                 missed_at_least boolean, overlap text, advance boolean)) with ordinality
           as x(tenant, id, version, expected_slot, next_slot, slots, missed, missed_count,
                missed_at_least, overlap, advance, n)
     order by x.tenant, x.id
  )
  select json_agg(json_build_object(
           'n', i.n, 'tenant', i.tenant, 'id', i.id, 'advance', coalesce(i.advance, true),
           'overlap', coalesce(i.overlap, s.overlap), 'seq', s.seq, 'next_slot', i.next_slot,
           'slots', i.slots, 'missed', i.missed, 'missed_count', coalesce(i.missed_count, 0),
           'at_least', coalesce(i.missed_at_least, false)))
    into v_held
    from item i
   cross join lateral (
     select s.overlap, s.seq from windlass.schedules s
      where s.tenant = i.tenant and s.id = i.id
        and (not coalesce(i.advance, true)
             or (s.enabled and s.version = i.version and s.next_slot = i.expected_slot))
        for update skip locked) s
   where i.nth = 1;
  return v_held;
end
$$;
