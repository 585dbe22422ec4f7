-- Write what was judged (see windlass.judge_slots): the slots, the schedules' next slots and
-- counters, and the events of slots that were missed or skipped.
create or replace function windlass.advance_schedules(p_judged json, p_now timestamptz)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  insert into windlass.schedule_slots (tenant, schedule, slot, outcome, run, at, pending)
  select h.tenant, h.id, s.slot, s.outcome,
         case when s.outcome = 'fired' then (s.run ->> 'id')::uuid end, p_now,
         case when s.outcome = 'waiting' then s.run end
    from json_to_recordset(p_judged) as h(tenant text, id uuid, slots json)
   cross join lateral json_to_recordset(h.slots) as s(slot timestamptz, outcome text, run json)
  -- one that was missed or skipped, and is made good by hand
  on conflict (tenant, schedule, slot) do update
    set outcome = excluded.outcome, run = excluded.run, at = excluded.at,
        pending = excluded.pending;
  insert into windlass.schedule_slots (tenant, schedule, slot, outcome, at)
  select h.tenant, h.id, m.slot::timestamptz, 'missed', p_now
    from json_to_recordset(p_judged) as h(tenant text, id uuid, missed json)
   cross join lateral json_array_elements_text(h.missed) as m(slot)
  on conflict do nothing;

  with told as materialized (
    select h.tenant, h.id, h.seq + (h.missed_count > 0)::integer as seq, h.advance, h.next_slot,
           h.last_slot, h.fired, h.skipped, h.missed, h.missed_count, h.at_least,
           h.slots
      from json_to_recordset(p_judged)
           as h(tenant text, id uuid, seq integer, advance boolean, next_slot timestamptz,
                last_slot timestamptz, fired bigint, skipped bigint, missed json,
                missed_count bigint, at_least boolean, slots json)
  ), moved as (
    update windlass.schedules s
       set next_slot = case when t.advance then t.next_slot else s.next_slot end,
           last_slot = greatest(s.last_slot, t.last_slot),
           fired = s.fired + t.fired, skipped = s.skipped + t.skipped,
           missed = s.missed + t.missed_count, seq = t.seq + t.skipped
      from told t
     where s.tenant = any (array[t.tenant]) and s.id = t.id
  ), missed as (
    insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
    select t.tenant, t.id, t.seq, 'schedule.missed', p_now, 0,
           case when t.at_least
                then json_build_object('slots', m.slots, 'count', t.missed_count,
                                       'at_least', true)
                else json_build_object('slots', m.slots, 'count', t.missed_count) end
      from told t
     cross join lateral (select coalesce(json_agg(windlass.iso(m.slot::timestamptz)), '[]') as slots
                           from json_array_elements_text(t.missed) as m(slot)) m
     where t.missed_count > 0
  )
  insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
  select t.tenant, t.id, t.seq + s.nth, 'schedule.skipped', p_now, 0,
         json_build_object('slot', windlass.iso(s.slot), 'why', s.why)
    from told t
   cross join lateral (select s.slot, s.why, row_number() over (order by s.slot) as nth
                         from json_to_recordset(t.slots)
                              as s(slot timestamptz, outcome text, why text)
                        where s.outcome = 'skipped') s
   where t.skipped > 0;
end
$$;
