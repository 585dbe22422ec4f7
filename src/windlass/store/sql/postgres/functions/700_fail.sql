-- For workers in other languages: an attempt failed; decide as the job's stored policy says
-- (domain/policy.py has the same formula) whether and when it is tried again. windlass.sync_jobs
-- stores no policy that cannot be read. If there is one all the same, the default policy counts:
-- it must always be possible to end a run.
-- False: the lease is lost, nothing was written.
create or replace function windlass.fail(
  p_tenant text, p_id uuid, p_token bigint, p_error json, p_fatal boolean default false
) returns boolean
language plpgsql volatile security definer
set extra_float_digits = 1
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_lease windlass.leases;
  v_budget integer;
  v_policy json;
  v_delay double precision;
  v_failure text;
begin
  select * into v_lease from windlass.leases l
   where l.tenant = p_tenant and l.id = p_id and l.token = p_token for update;
  if not found then
    return false;
  end if;
  begin
    select coalesce(case when json_typeof(r.options -> 'max_attempts') = 'number'
                         then least((r.options ->> 'max_attempts')::numeric, 1000000)::integer end,
                    j.max_attempts, 5),
           coalesce(j.retry, '{}')
      into v_budget, v_policy
      from windlass.runs r
      left join windlass.jobs j on j.tenant = r.tenant and j.name = r.job
     where r.tenant = p_tenant and r.id = p_id;
    v_delay := windlass.backoff(v_policy, v_lease.failures + 1);
    if v_delay not between 0 and 3155760000 then
      v_delay := windlass.backoff('{}', v_lease.failures + 1);
    end if;
  exception when data_exception then
    v_budget := coalesce(v_budget, 5);
    v_delay := windlass.backoff('{}', v_lease.failures + 1);
  end;
  v_failure := case when p_fatal then 'fatal'
                    when v_delay is null or v_lease.failures + 1 >= v_budget then 'exhausted' end;
  perform windlass.finish(json_build_array(json_build_object(
    'tenant', p_tenant, 'id', p_id, 'token', p_token, 'counts', true,
    'error', windlass.check_error(v_lease.job, p_error),
    'outcome', case when v_failure is null then 'retry' else 'failed' end,
    'failure', v_failure, 'delay', case when v_failure is null then v_delay end)));
  return true;
end
$$;
