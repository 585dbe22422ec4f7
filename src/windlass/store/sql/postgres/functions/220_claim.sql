-- Take leases of runs that are ready, for a worker that is registered and alive (else WL008):
-- the heads of the queues, see windlass.lease_heads. Where no queue is named, the first one changes
-- with p_turn, or with the claim's number.
create or replace function windlass.claim(
  p_worker text, p_claim_no bigint, p_limit integer, p_jobs text[],
  p_queues text[] default null, p_after json default null, p_window integer default null,
  p_turn bigint default null
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
    select h.tenant, h.id, h.job, h.queue, h.token, h.attempt, h.failures, h.crash_count, h.input,
           h.options, h.trace, h.rank, h.ready_at, h.started_at, h.schedule, h.slot,
           h.deadline_at, h.extras
      from windlass.lease_heads(v_worker_no, p_claim_no, p_limit, p_jobs, p_queues, p_after,
                                p_window, coalesce(p_turn, p_claim_no), v_now) h
     where h.kind = 'run';
end
$$;
