-- Enqueue one run: plain arguments, no session settings, so that it can be called through
-- anybody's connection, inside the caller's own transaction.
--   select * from windlass.enqueue('send_welcome', '{"user_id": 7}');
-- Repeating a call with the same id or the same key makes no second run: created is false, and
-- the rest of the answer is about the run that exists, as it is now.
create or replace function windlass.enqueue(
  p_job text,
  p_input json default null,          -- null: as the job's definition says, or none
  p_id uuid default null,
  p_tenant text default 'default',
  p_queue text default null,          -- null: as the job's definition says
  p_priority integer default null,
  p_delay double precision default null,
  p_at timestamptz default null,
  p_key text default null,
  p_key_ttl double precision default null,
  p_tags text[] default null,
  p_expires_in double precision default null,
  p_expires_at timestamptz default null,
  p_deadline_in double precision default null,
  p_deadline_at timestamptz default null,
  p_options json default null,
  p_job_version text default null,
  p_trace text default null,
  p_metadata json default null,
  p_enqueued_by uuid default null,
  out id uuid, out created boolean, out status text,
  out created_at timestamptz, out scheduled_for timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
#variable_conflict use_column
declare
  v_now timestamptz := windlass.now();
  v_due timestamptz;
  v_expires timestamptz;
  v_deadline timestamptz;
  v_input json := coalesce(p_input, windlass.default_input(p_tenant, p_job));
  v_text text := v_input::text;
  v_options json := windlass.check_options(p_job, p_options);
  v_metadata json := windlass.check_metadata(p_job, p_metadata);
  v_queue text := p_queue;
  v_priority integer := p_priority;
  v_owner uuid;
begin
  -- What is plainly right is let through at once; the functions are for the rest.
  if (windlass.is_name(p_job) and p_tenant ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$'
      and (p_queue is null or windlass.is_name(p_queue))
      and (p_priority is null or p_priority between -32768 and 32767)) is not true then
    perform windlass.check_job(p_job);
    perform windlass.check_tenant(p_job, p_tenant);
    perform windlass.check_queue(p_job, p_queue);
    perform windlass.check_priority(p_job, p_priority);
  end if;
  perform windlass.check_key(p_job, p_key);
  if v_queue is null or v_priority is null then
    select coalesce(v_queue, j.queue), coalesce(v_priority, j.priority)
      into v_queue, v_priority
      from windlass.jobs j where j.tenant = p_tenant and j.name = p_job;
    if not found then
      raise exception 'there is no job %', p_job
        using errcode = 'WL006', detail = json_build_array(p_job)::text;
    end if;
  end if;
  if windlass.needs_judging(v_text, true) then
    perform windlass.judge_json('input', v_text);
  end if;
  perform windlass.check_length(p_job, 'key_ttl', p_key_ttl);
  perform windlass.check_tags(p_job, p_tags);
  perform windlass.check_trace(p_job, p_trace);
  if p_key_ttl is not null and p_key is null then
    perform windlass.refuse(p_job, 'key_ttl', 'needs a key');
  elsif p_key is null and v_options ->> 'unique' is not null then
    perform windlass.refuse(p_job, 'unique', 'needs a key');
  elsif p_delay is not null and p_at is not null then
    perform windlass.refuse(p_job, 'delay', 'excludes at: give one of them');
  elsif p_expires_in is not null and p_expires_at is not null then
    perform windlass.refuse(p_job, 'expires_in', 'excludes expires_at: give one of them');
  elsif p_deadline_in is not null and p_deadline_at is not null then
    perform windlass.refuse(p_job, 'deadline_in', 'excludes deadline_at: give one of them');
  end if;
  id := coalesce(p_id, windlass.uuid7());
  v_due := v_now + windlass.check_length(p_job, 'delay', p_delay);
  v_due := greatest(v_now, coalesce(windlass.check_instant(p_job, 'at', p_at), v_due));
  v_expires := v_now + windlass.check_length(p_job, 'expires_in', p_expires_in);
  v_expires := coalesce(v_expires, windlass.check_instant(p_job, 'expires_at', p_expires_at));
  v_deadline := v_now + windlass.check_length(p_job, 'deadline_in', p_deadline_in);
  v_deadline := coalesce(v_deadline, windlass.check_instant(p_job, 'deadline_at', p_deadline_at));
  created := false;
  if p_key is not null then
    -- A repeat by id needs no key, which may be another's by now.
    select * into status, created_at, scheduled_for from windlass.known_run(p_tenant, p_id);
    if found then
      return;
    end if;
    v_owner := windlass.take_key(p_tenant, p_job, p_key, id, v_input, p_key_ttl,
                                 coalesce(v_options ->> 'unique' = 'live', false), v_now);
    if v_owner <> id then
      id := v_owner;
      select * into status, created_at, scheduled_for from windlass.known_run(p_tenant, id);
      return;
    end if;
  end if;

  insert into windlass.runs (tenant, id, job, job_version, queue, priority, input, options, key,
                             tags, trace, metadata, enqueued_by, created_at, scheduled_for,
                             expires_at, deadline_at)
  values (p_tenant, id, p_job, p_job_version, v_queue, v_priority, v_input, v_options, p_key,
          p_tags, p_trace, v_metadata, p_enqueued_by, v_now, v_due, v_expires, v_deadline)
  on conflict do nothing;
  if not found then
    select * into status, created_at, scheduled_for from windlass.known_run(p_tenant, id);
    return;
  end if;
  created := true;
  created_at := v_now;
  scheduled_for := v_due;
  status := case when v_due > v_now then 'scheduled' else 'queued' end;
  if v_due > v_now then
    insert into windlass.timers (tenant, id, job, queue, rank, due_at, why,
                                 attempt, failures, crash_count, token, seq, expires_at,
                                 deadline_at)
    values (p_tenant, id, p_job, v_queue, -v_priority, v_due, 'delay', 0, 0, 0, 0, 1, v_expires,
            v_deadline);
    insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
    values (p_tenant, id, 1, 'run.enqueued', v_now, 0, '{"why": "delay"}');
  else
    insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                                attempt, failures, crash_count, token, seq, expires_at,
                                deadline_at)
    values (p_tenant, id, p_job, v_queue, -v_priority, v_now, 0, 0, 0, 0, 1, v_expires, v_deadline);
    -- The record tells that it was enqueued, see windlass.events; the feed needs a page.
    insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
    values (windlass.page_moment(), v_now, 1, 0, p_tenant, 'run.enqueued', array[id]);
  end if;
  if p_tags is not null then
    insert into windlass.run_tags (tenant, tag, id)
    select p_tenant, t.tag, id from (select distinct unnest(p_tags) as tag) t;
  end if;
end
$$;
