-- The runs of slots, the same rows as windlass.enqueue_many makes; the caller has locked their
-- schedules and written their slots. Items: tenant, schedule, slot, and run with the names of
-- windlass.enqueue's arguments, less the p_. A run is due at once, or at its `at`.
create or replace function windlass.start_slots(p_items json, p_now timestamptz) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  with item as (
    select x.tenant, x.schedule, x.slot, r.id, r.job, r.job_version, r.queue,
           coalesce(r.priority, 0) as priority, coalesce(r.input, 'null') as input, r.options,
           r.tags, r.trace, r.metadata, coalesce(r.at, x.slot) as scheduled_for,
           greatest(p_now, r.at) as due,
           case when r.expires_in is not null then p_now + make_interval(secs => r.expires_in)
                else r.expires_at end as expires_at,
           case when r.deadline_in is not null then p_now + make_interval(secs => r.deadline_in)
                else r.deadline_at end as deadline_at
      from json_to_recordset(p_items) as x(tenant text, schedule uuid, slot timestamptz, run json)
     cross join lateral json_to_record(x.run)
           as r(id uuid, job text, job_version text, queue text, priority integer, input json,
                options json, tags text[], trace text, metadata json, at timestamptz,
                expires_in double precision, expires_at timestamptz,
                deadline_in double precision, deadline_at timestamptz)
  ), fresh as (
    insert into windlass.runs (tenant, id, job, job_version, queue, priority, input, options,
                               tags, trace, metadata, created_at, scheduled_for, expires_at,
                               deadline_at, schedule, slot)
    select i.tenant, i.id, i.job, i.job_version, i.queue, i.priority, i.input, i.options,
           i.tags, i.trace, i.metadata, p_now, i.scheduled_for, i.expires_at, i.deadline_at,
           i.schedule, i.slot
      from item i
  ), made_ready as (
    insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                                attempt, failures, crash_count, token, seq, expires_at,
                                deadline_at)
    select i.tenant, i.id, i.job, i.queue, -i.priority, p_now, 0, 0, 0, 0, 1, i.expires_at,
           i.deadline_at
      from item i where i.due <= p_now
  ), made_timers as (
    insert into windlass.timers (tenant, id, job, queue, rank, due_at, why,
                                 attempt, failures, crash_count, token, seq, expires_at,
                                 deadline_at)
    select i.tenant, i.id, i.job, i.queue, -i.priority, i.due, 'delay',
           0, 0, 0, 0, 1, i.expires_at, i.deadline_at
      from item i where i.due > p_now
  ), tagged as (
    insert into windlass.run_tags (tenant, tag, id)
    select distinct i.tenant, t.tag, i.id
      from item i cross join lateral unnest(i.tags) as t(tag)
     where i.tags is not null
  ), logged as (
    insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
    select i.tenant, i.id, 1, 'run.enqueued', p_now, 0,
           case when i.due > p_now
                then json_build_object('why', 'delay', 'schedule', i.schedule,
                                       'slot', windlass.iso(i.slot))
                else json_build_object('schedule', i.schedule, 'slot', windlass.iso(i.slot)) end
      from item i
  )
  insert into windlass.schedule_live (tenant, schedule, slot, run)
  select i.tenant, i.schedule, i.slot, i.id from item i;
end
$$;
