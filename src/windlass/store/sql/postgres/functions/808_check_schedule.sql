-- Refuse a schedule that no scheduler could read: one that looks at all that are due reads each.
-- What its rule says is for the reader; one whose rule makes no sense is passed over.
create or replace function windlass.check_schedule(p_new windlass.schedules) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_option record;
  v_kind text := json_typeof(p_new.options);
begin
  perform windlass.check_job(p_new.job);
  perform windlass.check_tenant(p_new.job, p_new.tenant);
  perform windlass.check_key(p_new.job, p_new.key);
  perform windlass.check_json('rule', array[p_new.rule]);
  perform windlass.check_json('input', array[p_new.input]);
  perform windlass.check_instant(p_new.job, 'next_slot', p_new.next_slot);
  if v_kind <> 'object' then
    perform windlass.refuse(p_new.job, 'options', 'is not an object');
  end if;
  for v_option in
    select o.key, json_typeof(o.value) as kind, o.value, o.value #>> '{}' as text
      from json_each(p_new.options) o
  loop
    continue when v_option.kind = 'null';
    case v_option.key
      when 'max_attempts', 'timeout' then
        perform windlass.check_options(
          p_new.job, json_build_object(v_option.key, v_option.value));
      when 'expires', 'deadline' then
        if v_option.kind <> 'number' then
          perform windlass.refuse(p_new.job, v_option.key, 'is not a number of seconds');
        end if;
        perform windlass.check_length(p_new.job, v_option.key, v_option.text::double precision);
      when 'queue' then
        if v_option.kind <> 'string' then
          perform windlass.refuse(p_new.job, 'queue', 'is not a text');
        end if;
        perform windlass.check_queue(p_new.job, v_option.text);
      when 'priority' then
        if v_option.kind <> 'number' or v_option.text !~ '^-?[0-9]{1,5}$' then
          perform windlass.refuse(p_new.job, 'priority', 'is not a whole number');
        end if;
        perform windlass.check_priority(p_new.job, v_option.text::integer);
      when 'tags' then
        if v_option.kind <> 'array' then
          perform windlass.refuse(p_new.job, 'tags', 'is not a list');
        elsif exists (select 1 from json_array_elements(v_option.value) as t(value)
                       where json_typeof(t.value) <> 'string') then
          perform windlass.refuse(p_new.job, 'tags', 'is not a list of texts');
        end if;
        perform windlass.check_tags(p_new.job,
                                    array(select json_array_elements_text(v_option.value)));
      when 'trace' then
        if v_option.kind <> 'string' then
          perform windlass.refuse(p_new.job, 'trace', 'is not a text');
        end if;
        perform windlass.check_trace(p_new.job, v_option.text);
      when 'metadata' then
        perform windlass.check_metadata(p_new.job, v_option.value);
      else
        perform windlass.refuse(p_new.job, v_option.key, 'is no option of a schedule');
    end case;
  end loop;
end
$$;
