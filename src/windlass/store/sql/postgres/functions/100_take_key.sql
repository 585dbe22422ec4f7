-- Whether there is a run of this id. A function of its own, with its plan pinned, so that those who
-- enqueue without a key need not pay for that.
create or replace function windlass.is_known(p_tenant text, p_id uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return exists (select 1 from windlass.runs r where r.tenant = p_tenant and r.id = p_id);
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
  -- jsonb has one spelling for equal documents, whoever encoded them.
  v_hash text := md5(p_input::jsonb::text);
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
