-- Take leases of exactly these runs, as a transport delivered them, for a worker that is
-- registered and alive (else WL008), see windlass.lease_named.
create or replace function windlass.claim_ids(
  p_worker text, p_claim_no bigint, p_limit integer, p_jobs text[], p_queues text[],
  p_tenants text[], p_ids uuid[]
) returns table (
  tenant text, id uuid, job text, queue text, token bigint, attempt integer, failures integer,
  crash_count integer, input json, options json, trace text, rank integer,
  ready_at timestamptz, started_at timestamptz, schedule uuid, slot timestamptz,
  deadline_at timestamptz, extras json
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  v_now timestamptz := windlass.now();
  v_worker_no integer := windlass.hold_worker(p_worker, v_now);
begin
  if v_worker_no is null then
    return;  -- its row is locked
  elsif v_worker_no = 0 then
    raise exception 'worker % is not registered, or its lease has run out', p_worker
      using errcode = 'WL008', detail = json_build_array(p_worker)::text;
  end if;
  if not pg_try_advisory_xact_lock_shared(hashtextextended('windlass.pauses', 0)) then
    return;  -- somebody waits for claims to end, see windlass.settle_pauses
  end if;
  return query
    select * from windlass.lease_named(v_worker_no, p_claim_no, p_limit, p_jobs, p_queues,
                                       p_tenants, p_ids, v_now);
end
$$;
