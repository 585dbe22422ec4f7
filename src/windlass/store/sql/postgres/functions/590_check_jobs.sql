-- Refuse definitions (see windlass.sync_jobs) that no process could read: whoever enqueues by name
-- or fires schedules reads them all.
create or replace function windlass.check_jobs(p_jobs json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_job record;
  v_name text;
begin
  perform windlass.check_escapes('jobs', p_jobs);
  for v_job in
    select * from json_to_recordset(p_jobs)
                  as x(tenant json, name json, queue json, priority json, max_attempts json,
                       timeout json, retry json, parameters json, default_input json,
                       defaults json, on_failure json, phases json, version json)
  loop
    v_name := v_job.name #>> '{}';
    if json_typeof(v_job.name) is distinct from 'string' or not windlass.is_name(v_name) then
      perform windlass.refuse(coalesce(left(v_name, 100), 'sync_jobs'), 'name',
                              'is not a name: no spaces, commas or control characters, at most '
                              '200 in all');
    elsif v_job.queue is null then
      perform windlass.refuse(v_name, 'queue', 'is missing');
    end if;
    perform windlass.check_member(v_name, 'tenant', v_job.tenant);
    perform windlass.check_member(v_name, 'queue', v_job.queue);
    perform windlass.check_member(v_name, 'priority', v_job.priority);
    perform windlass.check_member(v_name, 'job_version', v_job.version);
    perform windlass.check_options(v_name, json_build_object(
      'max_attempts', v_job.max_attempts, 'timeout', v_job.timeout));
    perform windlass.check_retry(v_name, v_job.retry);
    perform windlass.check_json('default_input', array[v_job.default_input]);
    if json_typeof(v_job.defaults) not in ('object', 'null') then
      perform windlass.refuse(v_name, 'defaults', 'is not an object');
    elsif json_typeof(v_job.defaults) = 'object' then
      perform windlass.check_member(v_name, 'tags', v_job.defaults -> 'tags');
      perform windlass.check_member(v_name, 'expires_in', v_job.defaults -> 'expires');
      perform windlass.check_member(v_name, 'deadline_in', v_job.defaults -> 'deadline');
      perform windlass.check_member(v_name, 'key_ttl', v_job.defaults -> 'key_ttl');
      perform windlass.check_options(v_name, json_build_object(
        'unique', v_job.defaults -> 'unique'));
    end if;
    if json_typeof(v_job.on_failure) not in ('object', 'null') then
      perform windlass.refuse(v_name, 'on_failure', 'is not an object');
    elsif json_typeof(v_job.on_failure) = 'object' then
      if json_typeof(v_job.on_failure -> 'job') is distinct from 'string'
         or not windlass.is_name(v_job.on_failure ->> 'job') then
        perform windlass.refuse(v_name, 'on_failure', 'needs job, the name of one');
      elsif json_typeof(v_job.on_failure -> 'argument') is distinct from 'string' then
        perform windlass.refuse(v_name, 'on_failure', 'needs argument, the parameter of its job');
      end if;
      perform windlass.check_member(v_name, 'queue', v_job.on_failure -> 'queue');
      perform windlass.check_member(v_name, 'priority', v_job.on_failure -> 'priority');
    end if;
    if json_typeof(v_job.parameters) <> 'array' then
      perform windlass.refuse(v_name, 'parameters', 'is not a list');
    elsif exists (select 1 from json_array_elements(v_job.parameters) as p(value)
                   where json_typeof(p.value) <> 'object') then
      perform windlass.refuse(v_name, 'parameters', 'is not a list of objects');
    end if;
    if json_typeof(v_job.phases) not in ('array', 'null') then
      perform windlass.refuse(v_name, 'phases', 'is not a list');
    elsif exists (select 1 from json_array_elements(v_job.phases) as p(value)
                   where json_typeof(p.value) <> 'string') then
      perform windlass.refuse(v_name, 'phases', 'is not a list of names');
    end if;
  end loop;
end
$$;
