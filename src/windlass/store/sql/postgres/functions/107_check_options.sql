-- What one run overrides of its job's definition, checked as domain/job.py does: a worker reads
-- no other. Null is no option, here and as the value of one.
create or replace function windlass.check_options(p_job text, p_options json) returns json
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_option record;
  v_kind text := json_typeof(p_options);
begin
  if v_kind = 'null' then
    return null;
  elsif v_kind <> 'object' then
    perform windlass.refuse(p_job, 'options', 'is not an object');
  end if;
  for v_option in
    select o.key, json_typeof(o.value) as kind, o.value::text as value
      from json_each(p_options) o
  loop
    if v_option.key not in ('max_attempts', 'timeout', 'unique', 'again_of', 'asked_by') then
      perform windlass.refuse(p_job, v_option.key,
                              'is not an option: there are max_attempts, timeout, unique, again_of and '
                              'asked_by');
    end if;
    continue when v_option.kind = 'null';
    if v_option.key = 'max_attempts' then
      if v_option.kind <> 'number' or v_option.value !~ '^[0-9]{1,7}$'
         or v_option.value::integer not between 1 and 1000000 then
        perform windlass.refuse(p_job, v_option.key, 'is not a whole number from 1 to 1000000');
      end if;
    elsif v_option.key = 'unique' then
      if v_option.value <> '"live"' then
        perform windlass.refuse(p_job, v_option.key, 'is not live');
      end if;
    elsif v_option.key = 'again_of' then
      if v_option.value !~* '^"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"$' then
        perform windlass.refuse(p_job, v_option.key, 'is not a UUID');
      end if;
    elsif v_option.key = 'asked_by' then
      if v_option.kind <> 'string' or length(p_options ->> 'asked_by') not between 1 and 200 then
        perform windlass.refuse(p_job, v_option.key, 'is not a text of 1 to 200 characters');
      end if;
    elsif v_option.kind <> 'number'
          or v_option.value !~ '^[0-9]{1,10}([.][0-9]{1,30})?([eE][+-]?[0-9]{1,2})?$'
          or v_option.value::double precision not between 1e-9 and 3155760000 then
      perform windlass.refuse(p_job, v_option.key,
                              'is not a number of seconds above 0, up to 100 years');
    end if;
  end loop;
  return p_options;
end
$$;
