-- Refuse a retention that no janitor could follow: see RetentionTerms of domain/retention.py.
create or replace function windlass.check_retention(p_job text, p_retention json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_age record;
begin
  if p_retention is null or json_typeof(p_retention) = 'null' then
    return;
  elsif json_typeof(p_retention) <> 'object'
        or json_typeof(p_retention -> 'stale') is distinct from 'object'
        or json_typeof(p_retention -> 'delete') is distinct from 'object' then
    perform windlass.refuse(p_job, 'retention', 'needs stale and delete, the seconds of each status');
  elsif coalesce(p_retention ->> 'keep_last', '0') !~ '^[0-9]{1,6}$' then
    perform windlass.refuse(p_job, 'retention', 'takes keep_last of 0 to 100,000');
  end if;
  for v_age in
    select * from json_each(p_retention -> 'stale')
    union all select * from json_each(p_retention -> 'delete')
  loop
    if v_age.key not in ('succeeded', 'failed', 'canceled') then
      perform windlass.refuse(p_job, 'retention', 'knows succeeded, failed and canceled');
    elsif json_typeof(v_age.value) not in ('number', 'null') then
      perform windlass.refuse(p_job, 'retention', 'takes seconds, or null for never');
    elsif (v_age.value #>> '{}')::double precision not between 0 and 3155760000 then
      perform windlass.refuse(p_job, 'retention', 'takes 0 s to 100 years');
    end if;
  end loop;
end
$$;

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
                       defaults json, on_failure json, phases json, retention json, version json)
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
    perform windlass.check_retention(v_name, v_job.retention);
  end loop;
end
$$;
