-- Refuse decisions (see windlass.fire_schedules) that would leave a schedule, or a run, that nobody
-- could read.
create or replace function windlass.check_decisions(p_decisions json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.check_escapes('decisions', p_decisions);
  perform windlass.check_instant('fire_schedules', 'next_slot', x.next_slot)
     from json_to_recordset(p_decisions) as x(next_slot timestamptz);
  perform windlass.check_json('input', array_agg(r.input)),
          count(windlass.check_instant(r.job, 'slot', s.slot)),
          count(windlass.check_instant(r.job, 'at', r.at)),
          count(windlass.check_length(r.job, 'expires_in', r.expires_in)),
          count(windlass.check_instant(r.job, 'expires_at', r.expires_at)),
          count(windlass.check_options(r.job, r.options)),
          count(windlass.check_queue(r.job, r.queue)),
          count(windlass.check_priority(r.job, r.priority)),
          count(windlass.check_tags(r.job, r.tags))
     from json_to_recordset(p_decisions) as x(slots json)
    cross join lateral json_to_recordset(x.slots) as s(slot timestamptz, run json)
    cross join lateral json_to_record(s.run)
          as r(job text, queue text, priority integer, input json, options json, tags text[],
               at timestamptz, expires_in double precision, expires_at timestamptz);
end
$$;
