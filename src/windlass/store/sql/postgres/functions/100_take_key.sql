-- A run that is there already, as a repeated enqueue answers with it; no row where there is none.
-- A function of its own, with its plan pinned, so that an enqueue that makes a run need not pay for
-- that.
create or replace function windlass.known_run(p_tenant text, p_id uuid)
returns table (status text, created_at timestamptz, scheduled_for timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select coalesce(r.status,
                    case when exists (select 1 from windlass.ready q
                                       where q.tenant = p_tenant and q.id = p_id) then 'queued'
                         when exists (select 1 from windlass.leases l
                                       where l.tenant = p_tenant and l.id = p_id) then 'running'
                         else coalesce((select windlass.timer_status(t.why)
                                          from windlass.timers t
                                         where t.tenant = p_tenant and t.id = p_id), 'scheduled')
                         end),
           r.created_at, r.scheduled_for
      from windlass.runs r where r.tenant = p_tenant and r.id = p_id;
  if not found then
    -- One that is gone, whose key has time left.
    return query
      select k.run_status, k.run_created_at, k.run_scheduled_for from windlass.run_keys k
       where k.run = p_id and k.tenant = p_tenant and k.run_status is not null limit 1;
  end if;
end
$$;

-- The hash of an input, equal for equal JSON values whoever wrote them; codec.py has the same. It
-- is the SHA-256 of the document as jsonb writes it (objects by the length of their names and then
-- by their bytes, of names that come twice the last one, numbers in plain digits), but without the
-- zeros that end a fraction.
create or replace function windlass.input_hash(p_input json) returns text
language plpgsql immutable strict
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_text text := p_input::jsonb::text;
begin
  if v_text ~ '[.][0-9]*0(?![0-9])' then
    -- A string is matched as a whole, and put back: nothing in it is a number.
    v_text := regexp_replace(
      v_text, '("(?:[^"\\]|\\.)*")|([.][0-9]*[1-9])0+(?![0-9])|[.]0+(?![0-9])', '\1\2', 'g');
  end if;
  return encode(sha256(convert_to(v_text, 'UTF8')), 'hex');
end
$$;

-- Whether a run has ended. As of now: a function that is volatile looks anew at each call.
create or replace function windlass.is_over(p_tenant text, p_id uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return exists (select 1 from windlass.runs r
                  where r.tenant = p_tenant and r.id = p_id and r.status is not null);
end
$$;

-- Who owns this dedupe key? Ours, if it was free or had expired; else the run that has it.
-- The same key with other input is an error (WL003). A run that has ended has its key no more if
-- either it or the new one wants that (p_live).
--
-- The key's row is the mutex of live runs: whoever gives it to another run, or makes its run live
-- again (windlass.keep_key), has it locked while it looks whether that run has ended. An insert that
-- meets the row locks it, whether or not it updates it then.
create or replace function windlass.take_key(
  p_tenant text, p_job text, p_key text, p_run uuid, p_input json,
  p_ttl double precision, p_live boolean, p_now timestamptz
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_hash text := windlass.input_hash(p_input);
  v_expires timestamptz := p_now + make_interval(secs => p_ttl);
  v_run uuid;
  v_known windlass.run_keys;
begin
  loop
    insert into windlass.run_keys as k (tenant, job, key, run, input_hash, expires_at, live)
    values (p_tenant, p_job, p_key, p_run, v_hash, v_expires, p_live)
    on conflict (tenant, job, key) do update
      set run = excluded.run, input_hash = excluded.input_hash, expires_at = excluded.expires_at,
          live = excluded.live, run_status = null, run_created_at = null,
          run_scheduled_for = null
      where k.expires_at <= p_now
    returning run into v_run;
    if found then
      return v_run;
    end if;
    select * into v_known from windlass.run_keys k
     where k.tenant = p_tenant and k.job = p_job and k.key = p_key;
    continue when not found;  -- deleted between the two statements: try again
    if (v_known.live or p_live)
       and (v_known.run_status is not null or windlass.is_over(p_tenant, v_known.run)) then
      update windlass.run_keys k
         set run = p_run, input_hash = v_hash, expires_at = v_expires, live = p_live,
             run_status = null, run_created_at = null, run_scheduled_for = null
       where k.tenant = p_tenant and k.job = p_job and k.key = p_key;
      return p_run;
    end if;
    if v_known.input_hash <> v_hash then
      raise exception 'key % of job % belongs to run % with other input', p_key, p_job, v_known.run
        using errcode = 'WL003',
              detail = json_build_array(p_job, p_key, v_known.run)::text;
    end if;
    return v_known.run;
  end loop;
end
$$;

-- A run whose key is its own while it lives is about to live again: its key must not be another live
-- run's (WL011).
create or replace function windlass.keep_key(p_run windlass.runs, p_now timestamptz) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_known windlass.run_keys;
begin
  -- An update even where nothing changes: it holds the row, and whoever has an older snapshot of it
  -- cannot go on as if the run had ended.
  insert into windlass.run_keys as k (tenant, job, key, run, input_hash, live)
  values (p_run.tenant, p_run.job, p_run.key, p_run.id, windlass.input_hash(p_run.input), true)
  on conflict (tenant, job, key) do update set live = k.live
  returning * into v_known;
  if v_known.run = p_run.id then
    return;
  elsif coalesce(v_known.expires_at > p_now, true)
        and v_known.run_status is null and not windlass.is_over(p_run.tenant, v_known.run) then
    raise exception 'key % of job % belongs to run %, which has not ended', p_run.key, p_run.job,
      v_known.run
      using errcode = 'WL011',
            detail = json_build_array(p_run.job, p_run.key, v_known.run)::text;
  end if;
  update windlass.run_keys k
     set run = p_run.id, input_hash = windlass.input_hash(p_run.input), expires_at = null, live = true,
         run_status = null, run_created_at = null, run_scheduled_for = null
   where k.tenant = p_run.tenant and k.job = p_run.job and k.key = p_run.key;
end
$$;
