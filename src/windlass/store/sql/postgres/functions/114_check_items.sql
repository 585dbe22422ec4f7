-- Refuse a member of an item of a batch (see windlass.enqueue_many) that Python would not take.
-- Null is no value.
create or replace function windlass.check_member(p_job text, p_name text, p_value json)
returns void
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_kind text := json_typeof(p_value);
  v_text text := p_value #>> '{}';
begin
  if v_kind = 'null' or p_name in ('input', 'options', 'metadata') then
    return;  -- of the latter three, what is in them is looked at where they are stored
  end if;
  case p_name
    when 'id', 'tenant', 'job', 'job_version', 'queue', 'key', 'trace', 'enqueued_by', 'at',
         'expires_at', 'deadline_at' then
      if v_kind <> 'string' then
        perform windlass.refuse(p_job, p_name, 'is not a text');
      end if;
    when 'priority', 'delay', 'key_ttl', 'expires_in', 'deadline_in' then
      if v_kind <> 'number' then
        perform windlass.refuse(p_job, p_name, 'is not a number');
      end if;
    when 'tags' then
      if v_kind <> 'array' then
        perform windlass.refuse(p_job, p_name, 'is not a list of texts');
      end if;
    when 'after', 'after_failure', 'takes' then
      perform windlass.check_after(p_job, p_name, p_value);
    else
      perform windlass.refuse(p_job, p_name, 'is no argument of windlass.enqueue');
  end case;
  case p_name
    when 'id', 'enqueued_by' then
      if v_text !~* '^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$' then
        perform windlass.refuse(p_job, p_name, 'is not a UUID');
      end if;
    when 'trace' then perform windlass.check_trace(p_job, v_text);
    when 'tenant' then perform windlass.check_tenant(p_job, v_text);
    when 'job' then perform windlass.check_job(v_text);
    when 'queue' then perform windlass.check_queue(p_job, v_text);
    when 'key' then perform windlass.check_key(p_job, v_text);
    when 'priority' then
      -- Longer ones are none, whatever they are; an integer could not even hold them.
      perform windlass.check_priority(
        p_job, case when v_text ~ '^-?[0-9]{1,5}$' then v_text::integer else 99999 end);
    when 'delay', 'key_ttl', 'expires_in', 'deadline_in' then
      perform windlass.check_length(p_job, p_name, windlass.to_float(p_value));
    when 'at', 'expires_at', 'deadline_at' then
      perform windlass.check_instant(p_job, p_name, windlass.to_instant(p_job, p_name, v_text));
    when 'tags' then
      if exists (select 1 from json_array_elements(p_value) as t(value)
                  where json_typeof(t.value) <> 'string') then
        perform windlass.refuse(p_job, p_name, 'is not a list of texts');
      end if;
      perform windlass.check_tags(p_job, array(select json_array_elements_text(p_value)));
    else null;
  end case;
end
$$;

-- A number of JSON; one that is too large for the type is infinite, and refused as that.
create or replace function windlass.to_float(p_number json) returns double precision
language plpgsql immutable strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return (p_number #>> '{}')::double precision;
exception when numeric_value_out_of_range then
  return case when p_number::text ~ '[eE]-' then 0 else 'infinity'::double precision end;
end
$$;

-- An instant in JSON: a date and a time of ISO 8601, with its zone. Without one it would depend on
-- the session which instant is meant.
create or replace function windlass.to_instant(p_job text, p_argument text, p_text text)
returns timestamptz
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
set datestyle = 'ISO, YMD'
as $$
begin
  if p_text !~ ('^[0-9]{4,6}-[0-9]{2}-[0-9]{2}'
                '([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?)?[ ]?'
                '(Z|[+-][0-9]{2}(:?[0-9]{2})?)$')
  then
    perform windlass.refuse(p_job, p_argument, 'is not a time of ISO 8601 with its zone');
  end if;
  return p_text::timestamptz;
exception when data_exception then
  perform windlass.refuse(p_job, p_argument, 'is not a time of ISO 8601 with its zone');
  return null;
end
$$;

-- Whether an instant is plainly right, as JSON text: one that every month has, in UTC.
create or replace function windlass.is_plain_instant(p_text text) returns boolean
language sql immutable
return octet_length(p_text) <= 34
       and p_text ~ ('^"[1-9][0-9][0-9][0-9]-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T'
                     '([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[+]00:00)"$');

-- Whether a member of an item is plainly right, by its JSON text; most are. A regex that counts
-- would be slow, so lengths are compared by themselves.
create or replace function windlass.is_plain_member(p_name text, p_value json) returns boolean
language sql immutable
return case p_name
  when 'input' then true
  when 'metadata' then true
  when 'options' then position('unique' in p_value::text) = 0
  when 'id' then p_value::text like '"________-____-____-____-____________"'
                 and p_value::text ~ '^"[0-9a-f-]+"$'
  when 'enqueued_by' then p_value::text like '"________-____-____-____-____________"'
                          and p_value::text ~ '^"[0-9a-f-]+"$'
  when 'job' then octet_length(p_value::text) <= 202 and p_value::text ~ '^"[A-Za-z0-9_.:-]+"$'
  when 'queue' then octet_length(p_value::text) <= 202 and p_value::text ~ '^"[A-Za-z0-9_.:-]+"$'
  when 'tenant' then octet_length(p_value::text) <= 102 and p_value::text ~ '^"[A-Za-z0-9]+"$'
  when 'job_version' then left(p_value::text, 1) = '"'
  when 'trace' then octet_length(p_value::text) <= 102 and p_value::text ~ '^"[0-9a-f-]+"$'
  when 'priority' then octet_length(p_value::text) <= 4 and p_value::text ~ '^-?[0-9]+$'
  when 'key' then octet_length(p_value::text) <= 500 and p_value::text ~ '^"[^"\\]+"$'
  when 'tags' then octet_length(p_value::text) <= 200
                   and p_value::text ~ '^\["[^"\\]+"(, ?"[^"\\]+")*\]$'
  when 'at' then windlass.is_plain_instant(p_value::text)
  when 'expires_at' then windlass.is_plain_instant(p_value::text)
  when 'deadline_at' then windlass.is_plain_instant(p_value::text)
  else p_name in ('delay', 'key_ttl', 'expires_in', 'deadline_in')
       and octet_length(p_value::text) <= 9 and p_value::text ~ '^[0-9]+([.][0-9]+)?$'
end;

-- Refuse an item of a batch that Python would not take.
create or replace function windlass.check_item(p_item json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_job text;
begin
  if json_typeof(p_item) <> 'object' then
    perform windlass.refuse('enqueue_many', 'runs', 'is not a list of objects');
  end if;
  v_job := coalesce(p_item ->> 'job', 'enqueue_many');
  perform windlass.check_member(v_job, m.key, m.value) from json_each(p_item) m;
  perform windlass.check_job(p_item ->> 'job');
  if p_item ->> 'id' is null then
    perform windlass.refuse(v_job, 'id', 'is missing');
  elsif p_item ->> 'queue' is null then
    perform windlass.refuse(v_job, 'queue', 'is missing');
  elsif p_item ->> 'key_ttl' is not null and p_item ->> 'key' is null then
    perform windlass.refuse(v_job, 'key_ttl', 'needs a key');
  elsif p_item -> 'options' ->> 'unique' is not null and p_item ->> 'key' is null then
    perform windlass.refuse(v_job, 'unique', 'needs a key');
  elsif p_item ->> 'delay' is not null and p_item ->> 'at' is not null then
    perform windlass.refuse(v_job, 'delay', 'excludes at: give one of them');
  elsif p_item ->> 'expires_in' is not null and p_item ->> 'expires_at' is not null then
    perform windlass.refuse(v_job, 'expires_in', 'excludes expires_at: give one of them');
  elsif p_item ->> 'deadline_in' is not null and p_item ->> 'deadline_at' is not null then
    perform windlass.refuse(v_job, 'deadline_in', 'excludes deadline_at: give one of them');
  end if;
end
$$;

-- Refuse a batch (see windlass.enqueue_many) that Python would not take. One pass over the text
-- tells which items are plainly right, and only the others are looked at member by member.
create or replace function windlass.check_items(p_runs json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if json_typeof(p_runs) is distinct from 'array' then
    perform windlass.refuse('enqueue_many', 'runs', 'is not a list of objects');
  end if;
  perform windlass.check_item(i.item)
     from json_array_elements(p_runs) as i(item)
    cross join lateral (
      select count(*) filter (where m.key in ('id', 'job', 'queue')) = 3
             and count(*) filter (where m.key in ('delay', 'at')) < 2
             and count(*) filter (where m.key in ('expires_in', 'expires_at')) < 2
             and count(*) filter (where m.key in ('deadline_in', 'deadline_at')) < 2
             and count(*) filter (where m.key = 'key_ttl') <= count(*) filter (where m.key = 'key')
             and bool_and(windlass.is_plain_member(m.key, m.value)) as is_plain
        from json_each(case json_typeof(i.item) when 'object' then i.item else '{}' end) m
    ) p
    where p.is_plain is not true;
end
$$;

-- The same for windlass.enqueue_plain. Names come again and again, so each is looked at once.
create or replace function windlass.check_plain(
  p_tenants text[], p_ids uuid[], p_jobs text[], p_queues text[], p_priorities integer[]
) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  -- Most batches are of one job. An array with a null in it is contained in none.
  if cardinality(p_tenants) = cardinality(p_ids) and cardinality(p_jobs) = cardinality(p_ids)
     and cardinality(p_queues) = cardinality(p_ids)
     and cardinality(p_priorities) = cardinality(p_ids)
     and array_position(p_ids, null) is null
     and p_tenants <@ p_tenants[1:1] and p_jobs <@ p_jobs[1:1]
     and p_queues <@ p_queues[1:1] and p_priorities <@ p_priorities[1:1] then
    perform windlass.check_job(p_jobs[1]);
    perform windlass.check_tenant(p_jobs[1], p_tenants[1]);
    perform windlass.check_queue(p_jobs[1], p_queues[1]);
    perform windlass.check_priority(p_jobs[1], p_priorities[1]);
    return;
  end if;
  perform windlass.refuse('enqueue_plain', 'arrays',
                          'have a run without tenant, id, queue or priority')
     from unnest(p_tenants, p_ids, p_jobs, p_queues, p_priorities)
          as x(tenant, id, job, queue, priority)
    where x.tenant is null or x.id is null or x.queue is null or x.priority is null;
  perform windlass.check_job(x.job) from (select distinct unnest(p_jobs) as job) x;
  perform windlass.check_tenant(p_jobs[1], x.tenant)
     from (select distinct unnest(p_tenants) as tenant) x;
  perform windlass.check_queue(p_jobs[1], x.queue)
     from (select distinct unnest(p_queues) as queue) x;
  perform windlass.check_priority(p_jobs[1], x.priority)
     from (select distinct unnest(p_priorities) as priority) x;
end
$$;
