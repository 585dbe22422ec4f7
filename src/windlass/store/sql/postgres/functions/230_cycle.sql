-- A worker's whole round trip: record what ended, then take more. Successes come as arrays
-- (see windlass.succeed), other ends as JSON (see windlass.finish); p_limit 0 claims nothing;
-- p_run_ids claims exactly these runs (see windlass.lease_named) instead of the queues' heads.
-- Each row returned says what it is:
--   now      started_at is the store's clock
--   lost     (tenant, id, token) of an end that was not recorded: the lease is another's
--   busy     the same: somebody has the lease locked. Send that end again
--   locked   nothing was claimed: somebody has this worker's row locked, or waits for claims to end
--            (see windlass.settle_pauses). Ask again
--   refused  nothing was claimed: this worker is dead to the store and must register anew
--   run      a run that the worker now holds, as from windlass.claim
--   stop     the window ended the look into a queue at (rank, ready_at, id): there may be more
--   queues   where none was named, those that have something (see windlass.lease_heads)
create or replace function windlass.cycle(
  p_worker text, p_claim_no bigint,
  p_tenants text[], p_ids uuid[], p_tokens bigint[], p_results json[],
  p_others json,
  p_limit integer, p_jobs text[], p_queues text[] default null,
  p_after json default null, p_window integer default null,
  p_run_tenants text[] default null, p_run_ids uuid[] default null,
  p_turn bigint default null
) returns table (
  kind text, tenant text, id uuid, job text, queue text, token bigint, attempt integer,
  failures integer, crash_count integer, input json, options json, trace text, rank integer,
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
  v_worker_no integer;
begin
  kind := 'now';
  started_at := v_now;
  return next;
  if p_ids is not null then
    return query
      select case when s.busy then 'busy' else 'lost' end, s.tenant, s.id, null::text, null::text, s.token, null::integer,
             null::integer, null::integer, null::json, null::json, null::text, null::integer,
             null::timestamptz, null::timestamptz, null::uuid, null::timestamptz,
             null::timestamptz, null::json
        from windlass.succeed(p_tenants, p_ids, p_tokens, p_results) s;
  end if;
  if p_others is not null then
    return query
      select case when s.busy then 'busy' else 'lost' end, s.tenant, s.id, null::text, null::text, s.token, null::integer,
             null::integer, null::integer, null::json, null::json, null::text, null::integer,
             null::timestamptz, null::timestamptz, null::uuid, null::timestamptz,
             null::timestamptz, null::json
        from windlass.finish(p_others) s;
  end if;
  if p_limit > 0 then
    -- Later than what ended above, which may be what is claimed here. Asked once: an instant
    -- later the worker might be dead, and what ended must count all the same.
    v_now := windlass.now();
    v_worker_no := windlass.hold_worker(p_worker, v_now);
    if coalesce(v_worker_no, 0) = 0 then
      kind := case when v_worker_no is null then 'locked' else 'refused' end;
      return next;
    -- In a statement before the one that reads the pauses: see domain/pause.py.
    elsif not pg_try_advisory_xact_lock_shared(hashtextextended('windlass.pauses', 0)) then
      kind := 'locked';
      return next;
    elsif p_run_ids is not null then
      return query
        select 'run', c.* from windlass.lease_named(v_worker_no, p_claim_no, p_limit, p_jobs,
                                                    p_queues, p_run_tenants, p_run_ids, v_now) c;
    else
      return query
        select c.* from windlass.lease_heads(v_worker_no, p_claim_no, p_limit, p_jobs, p_queues,
                                             p_after, p_window, coalesce(p_turn, p_claim_no),
                                             v_now) c;
    end if;
  end if;
end
$$;
