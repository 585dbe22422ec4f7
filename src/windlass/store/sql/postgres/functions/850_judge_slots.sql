-- What becomes of the slots of held decisions (see windlass.hold_schedules): those that are new,
-- each with its outcome by the overlap policy. schedule_live has been pruned.
--   allow, cancel_running  fired
--   skip                   fired if nothing is live, and then only the first
--   queue                  the same, if nothing waits either; others wait, up to p_most_waiting
-- Returns the decisions, with "slots": [{i: the place in the decision from 1, slot, outcome, why,
-- run}], how many "fired" and "skipped", the "last_slot" decided, and the "last_fired"; and "again":
-- [{i, outcome}], slots by an operator's hand that were recorded with this very run before. The
-- reply to that call was lost: they are told once more, and nothing is written.
create or replace function windlass.judge_slots(p_held json, p_most_waiting integer) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_judged json;
begin
  with held as materialized (
    select h.*,
           case when h.overlap in ('skip', 'queue')
                then (select true from windlass.schedule_live l
                       where l.tenant = h.tenant and l.schedule = h.id limit 1) is not null
                end as live,
           case when h.overlap = 'queue'
                then (select count(*) from windlass.schedule_slots k
                       where k.tenant = h.tenant and k.schedule = h.id
                         and k.outcome = 'waiting') else 0 end as waiting
      from json_to_recordset(p_held)
           as h(n bigint, tenant text, id uuid, advance boolean, overlap text, seq integer,
                next_slot timestamptz, slots json, missed json, missed_count bigint,
                at_least boolean)
  )
  select json_agg(json_build_object(
           'n', h.n, 'tenant', h.tenant, 'id', h.id, 'advance', h.advance, 'overlap', h.overlap,
           'seq', h.seq, 'next_slot', h.next_slot, 'missed', h.missed,
           'missed_count', h.missed_count, 'at_least', h.at_least, 'slots', j.slots,
           'fired', j.fired, 'skipped', j.skipped, 'last_fired', j.last_fired,
           'again', case when not h.advance then
             (select json_agg(json_build_object('i', x.i, 'outcome', k.outcome))
                from rows from (json_to_recordset(h.slots)
                                as (slot timestamptz, run json)) with ordinality
                     as x(slot, run, i)
               cross join lateral (
                 select k.outcome, coalesce(k.run::text, k.pending ->> 'id') as run
                   from windlass.schedule_slots k
                  where k.tenant = h.tenant and k.schedule = h.id and k.slot = x.slot
                  limit 1) k
               where k.run::uuid = (x.run ->> 'id')::uuid) end,
           'last_slot', case when h.advance then
             greatest(j.last_slot, (select max(m.slot::timestamptz)
                                      from json_array_elements_text(h.missed) as m(slot))) end))
    into v_judged
    from held h
   cross join lateral (
     select json_agg(json_build_object(
              'i', o.i, 'slot', o.slot, 'outcome', o.outcome, 'run', o.run,
              'why', case when o.outcome = 'skipped'
                          then case h.overlap when 'queue' then 'full' else 'overlap' end end)
              order by o.i) as slots,
            count(*) filter (where o.outcome = 'fired') as fired,
            count(*) filter (where o.outcome = 'skipped') as skipped,
            max(o.slot) as last_slot,
            max(o.slot) filter (where o.outcome = 'fired') as last_fired
       from (select f.i, f.slot, f.run,
                    case when h.overlap in ('allow', 'cancel_running') or f.behind = 0
                         then 'fired'
                         when h.overlap = 'queue' and h.waiting + f.behind <= p_most_waiting
                         then 'waiting' else 'skipped' end as outcome
               -- behind: how many there are so far, itself included, that cannot fire
               from (select x.i, x.slot, x.run,
                            row_number() over (order by x.i)
                              - case when h.live or h.waiting > 0 then 0 else 1 end as behind
                       from rows from (json_to_recordset(h.slots)
                                       as (slot timestamptz, run json)) with ordinality
                            as x(slot, run, i)
                       left join lateral (
                         select k.outcome from windlass.schedule_slots k
                          where k.tenant = h.tenant and k.schedule = h.id and k.slot = x.slot
                          limit 1) k on true
                      where k.outcome is null
                         or (not h.advance and k.outcome in ('missed', 'skipped'))) f) o) j;
  return v_judged;
end
$$;
