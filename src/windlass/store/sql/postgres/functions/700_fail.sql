-- For workers in other languages: an attempt failed; decide as the job's stored policy says
-- (domain/policy.py has the same formula) whether and when it is tried again.
-- False: the lease is lost, nothing was written.
create or replace function windlass.fail(
  p_tenant text, p_id uuid, p_token bigint, p_error json, p_fatal boolean default false
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_lease windlass.leases;
  v_budget integer;
  v_policy json;
  v_delay double precision;
  v_end json;
begin
  select * into v_lease from windlass.leases l
   where l.tenant = p_tenant and l.id = p_id and l.token = p_token for update;
  if not found then
    return false;
  end if;
  select coalesce((r.options ->> 'max_attempts')::integer, j.max_attempts, 5),
         coalesce(j.retry, '{}')
    into v_budget, v_policy
    from windlass.runs r
    left join windlass.jobs j on j.tenant = r.tenant and j.name = r.job
   where r.tenant = p_tenant and r.id = p_id;
  v_delay := windlass.backoff(v_policy, v_lease.failures + 1);
  if p_fatal or v_delay is null then
    v_end := json_build_object('outcome', 'failed', 'failure', 'fatal');
  elsif v_lease.failures + 1 >= v_budget then
    v_end := json_build_object('outcome', 'failed', 'failure', 'exhausted');
  else
    v_end := json_build_object('outcome', 'retry', 'delay', v_delay);
  end if;
  perform windlass.finish(json_build_array(
    v_end::jsonb || jsonb_build_object('tenant', p_tenant, 'id', p_id, 'token', p_token,
                                       'counts', true, 'error', p_error::jsonb)));
  return true;
end
$$;
