-- Refuse decisions (see windlass.fire_schedules) that would leave a schedule, or a run, that nobody
-- could read; or a slot that waits and whose run could never be made.
create or replace function windlass.check_decisions(p_decisions json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_run record;
begin
  perform windlass.check_escapes('decisions', p_decisions);
  perform windlass.check_instant('fire_schedules', 'next_slot', x.next_slot)
     from json_to_recordset(p_decisions) as x(next_slot timestamptz);
  for v_run in
    select s.slot, r.*
      from json_to_recordset(p_decisions) as x(slots json)
     cross join lateral json_to_recordset(x.slots) as s(slot timestamptz, run json)
     cross join lateral json_to_record(s.run)
           as r(id uuid, job text, queue text, priority integer, input json, options json,
                tags text[], trace text, metadata json, at timestamptz,
                expires_in double precision, expires_at timestamptz,
                deadline_in double precision, deadline_at timestamptz)
  loop
    if v_run.slot is null or v_run.id is null or v_run.job is null or v_run.queue is null then
      perform windlass.refuse('fire_schedules', 'slots', 'has one without slot, id, job or queue');
    end if;
    perform windlass.check_job(v_run.job);
    perform windlass.check_json('input', array[v_run.input]);
    perform windlass.check_instant(v_run.job, 'slot', v_run.slot);
    perform windlass.check_instant(v_run.job, 'at', v_run.at);
    perform windlass.check_length(v_run.job, 'expires_in', v_run.expires_in);
    perform windlass.check_instant(v_run.job, 'expires_at', v_run.expires_at);
    perform windlass.check_length(v_run.job, 'deadline_in', v_run.deadline_in);
    perform windlass.check_instant(v_run.job, 'deadline_at', v_run.deadline_at);
    perform windlass.check_options(v_run.job, v_run.options);
    perform windlass.check_queue(v_run.job, v_run.queue);
    perform windlass.check_priority(v_run.job, v_run.priority);
    perform windlass.check_tags(v_run.job, v_run.tags);
    perform windlass.check_trace(v_run.job, v_run.trace);
    perform windlass.check_metadata(v_run.job, v_run.metadata);
  end loop;
end
$$;
