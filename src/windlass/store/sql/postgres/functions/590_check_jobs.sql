-- Refuse definitions (see windlass.sync_jobs) that no process could read: whoever enqueues by name
-- or fires schedules reads them all.
create or replace function windlass.check_jobs(p_jobs json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_job record;
begin
  perform windlass.check_escapes('jobs', p_jobs);
  for v_job in
    select * from json_to_recordset(p_jobs)
                  as x(name text, queue text, priority integer, max_attempts integer,
                       timeout double precision, retry json, parameters json, default_input json)
  loop
    perform windlass.check_json('default_input', array[v_job.default_input]);
    perform windlass.check_queue(v_job.name, v_job.queue);
    perform windlass.check_priority(v_job.name, v_job.priority);
    perform windlass.check_options(v_job.name, json_build_object(
      'max_attempts', v_job.max_attempts, 'timeout', v_job.timeout));
    if json_typeof(v_job.retry) <> 'object' then
      perform windlass.refuse(v_job.name, 'retry', 'is not an object');
    end if;
    if json_typeof(v_job.parameters) <> 'array' then
      perform windlass.refuse(v_job.name, 'parameters', 'is not a list');
    elsif exists (select 1 from json_array_elements(v_job.parameters) as p(value)
                   where json_typeof(p.value) <> 'object') then
      perform windlass.refuse(v_job.name, 'parameters', 'is not a list of objects');
    end if;
  end loop;
end
$$;
