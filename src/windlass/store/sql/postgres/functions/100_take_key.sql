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
                         else 'scheduled' end),
           r.created_at, r.scheduled_for
      from windlass.runs r where r.tenant = p_tenant and r.id = p_id;
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

-- Who owns this dedupe key? Ours, if it was free or had expired; else the run that has it.
-- The same key with other input is an error (WL003).
create or replace function windlass.take_key(
  p_tenant text, p_job text, p_key text, p_run uuid, p_input json,
  p_ttl double precision, p_now timestamptz
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
  v_known text;
begin
  loop
    insert into windlass.run_keys as k (tenant, job, key, run, input_hash, expires_at)
    values (p_tenant, p_job, p_key, p_run, v_hash, v_expires)
    on conflict (tenant, job, key) do update
      set run = excluded.run, input_hash = excluded.input_hash, expires_at = excluded.expires_at
      where k.expires_at <= p_now
    returning run into v_run;
    if found then
      return v_run;
    end if;
    select k.run, k.input_hash into v_run, v_known
      from windlass.run_keys k
     where k.tenant = p_tenant and k.job = p_job and k.key = p_key;
    if found then
      if v_known <> v_hash then
        raise exception 'key % of job % belongs to run % with other input', p_key, p_job, v_run
          using errcode = 'WL003',
                detail = json_build_array(p_job, p_key, v_run)::text;
      end if;
      return v_run;
    end if;
    -- deleted between the two statements: try again
  end loop;
end
$$;
