-- Apply decisions about schedules, each wholly or not at all. Items: tenant, id; version and
-- expected_slot, which the schedule must still have; next_slot (null: none is left); slots, a list
-- of {slot, run}, in order; missed, a list of slots to record, and missed_count, all of them (or,
-- if missed_at_least, those that were counted); overlap (null: the schedule's own).
-- advance = false: by an operator's hand; the schedule stays where it is, and nothing is expected
-- of it. What no reader could read raises WL005 or WL010, as in windlass.enqueue.
--
-- Exactly one run per slot: the schedule's row lock, the comparison and the key of schedule_slots,
-- in the transaction that makes the run. No clock takes part.
-- Returns {"now", "held": [n of each decision that counted, from 1], "slots": [{n, i, outcome}],
-- "canceled": [{n, run}]}. Slots that had their run already are not named, unless it is the one that
-- an operator's decision has for them: that call is a repeated one.
create or replace function windlass.fire_schedules(
  p_decisions json, p_most_waiting integer default 100
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
  v_held json;
  v_now timestamptz;
  v_judged json;
  v_started json;
  v_run record;
  v_canceled json[] := '{}';
begin
  perform windlass.check_decisions(p_decisions);
  v_held := windlass.hold_schedules(p_decisions);
  v_now := windlass.now();  -- once the rows are ours: events do not go back
  -- Where overlap is allowed nobody asks what is live; a few are pruned all the same, more than
  -- are added, so that a change of policy finds few.
  perform windlass.prune_live(array_agg(h.tenant), array_agg(h.id),
                              array_agg(case when h.overlap = 'allow' then 4 end))
     from json_to_recordset(v_held) as h(tenant text, id uuid, overlap text);
  v_judged := windlass.judge_slots(v_held, p_most_waiting);
  perform windlass.advance_schedules(v_judged, v_now);
  select json_agg(json_build_object('tenant', h.tenant, 'schedule', h.id, 'slot', s.slot,
                                    'run', s.run))
    into v_started
    from json_to_recordset(v_judged) as h(tenant text, id uuid, slots json)
   cross join lateral json_to_recordset(h.slots) as s(slot timestamptz, outcome text, run json)
   where s.outcome = 'fired';
  if v_started is not null then
    perform windlass.start_slots(v_started, v_now);
  end if;

  -- The last slot of each decision stays. In the order of positions, over all of them.
  for v_run in
    select h.n, l.tenant, l.run
      from json_to_recordset(v_judged)
           as h(n bigint, tenant text, id uuid, overlap text, last_fired timestamptz)
     cross join lateral (select l.tenant, l.run from windlass.schedule_live l
                          where l.tenant = h.tenant and l.schedule = h.id
                            and l.slot <> h.last_fired offset 0) l
     where h.overlap = 'cancel_running'
     order by l.tenant, l.run
  loop
    if windlass.stop_run(v_run.tenant, v_run.run, 'a later slot of its schedule has come')
       in ('canceled', 'running') then
      v_canceled := v_canceled || json_build_object('n', v_run.n, 'run', v_run.run);
    end if;
  end loop;
  return json_build_object(
    'now', v_now,
    'held', (select coalesce(json_agg(h.n), '[]') from json_to_recordset(v_judged) as h(n bigint)),
    'slots', (select coalesce(json_agg(json_build_object('n', h.n, 'i', s.i, 'outcome', s.outcome)
                                       order by h.n, s.i), '[]')
                from json_to_recordset(v_judged) as h(n bigint, slots json, again json)
               cross join lateral (
                 select * from json_to_recordset(h.slots) as s(i bigint, outcome text)
                 union all
                 select * from json_to_recordset(h.again) as s(i bigint, outcome text)) s),
    'canceled', to_json(v_canceled));
end
$$;
