-- Exactly these runs become leases of a worker that its caller found alive, where they are
-- ready and of known jobs and served queues. Others are passed over: a message may come twice,
-- late, or out of order. So is what is paused; the caller has the lock of the pauses.
create or replace function windlass.lease_named(
  p_worker_no integer, p_claim_no bigint, p_limit integer, p_jobs text[], p_queues text[],
  p_tenants text[], p_ids uuid[], p_now timestamptz
) returns table (
  tenant text, id uuid, job text, queue text, token bigint, attempt integer, failures integer,
  crash_count integer, input json, options json, trace text, rank integer,
  ready_at timestamptz, started_at timestamptz, schedule uuid, slot timestamptz,
  deadline_at timestamptz, extras json
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_paused text[];
begin
  if exists (select 1 from windlass.pauses) then
    v_paused := windlass.paused_names();
  end if;
  return query
    with named as materialized (
      select distinct n.tenant, n.id from unnest(p_tenants, p_ids) as n(tenant, id) order by 1, 2
    ), picked as materialized (
      select r.place
        from named n
       cross join lateral (
         select r.ctid as place from windlass.ready r
          where r.tenant = n.tenant and r.id = n.id
            and r.job = any (p_jobs)
            -- so written that no index by queue will do
            and (p_queues is null or array[r.queue] <@ p_queues)
            and (r.expires_at is null or r.expires_at > p_now)
            and (r.deadline_at is null or r.deadline_at > p_now)
            and (v_paused is null
                 or not windlass.is_paused(v_paused, r.tenant, r.queue, r.job))
            for update skip locked) r
       limit p_limit
    ), stamp as materialized (
      -- The time is taken once the rows are ours: a run's events do not go back.
      select count(*) as locked, windlass.now() as at from picked
    ), taken as (
      delete from windlass.ready r
       where r.ctid = any (array (select p.place from picked p))
      returning r.tenant, r.id, r.job, r.queue, r.rank, r.ready_at, r.attempt + 1 as attempt,
                r.failures, r.crash_count, r.token + 1 as token, r.seq + 1 as seq, r.deadline_at
    ), leased as (
      insert into windlass.leases (tenant, id, job, queue, rank, worker_no, claim_no, started_at,
                                   token, attempt, failures, crash_count, seq, started_seq,
                                   deadline_at)
      select t.tenant, t.id, t.job, t.queue, t.rank, p_worker_no, p_claim_no, s.at,
             t.token, t.attempt, t.failures, t.crash_count, t.seq, t.seq, t.deadline_at
        from taken t, stamp s
    ), paged as (
      -- The lease tells of the event, see windlass.events.
      insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
      select windlass.page_moment(), s.at, t.seq, t.attempt, t.tenant, 'run.started',
             array_agg(t.id)
        from taken t, stamp s group by t.tenant, t.seq, t.attempt, s.at
    )
    select t.tenant, t.id, t.job, t.queue, t.token, t.attempt, t.failures, t.crash_count,
           n.input, n.options, n.trace, t.rank, t.ready_at, s.at, n.schedule, n.slot,
           t.deadline_at,
           windlass.extras_of(n.tags, n.key, n.metadata, n.enqueued_by, n.scheduled_for,
                              t.ready_at, n.links)
      from taken t
     cross join stamp s
     cross join lateral (select r.input, r.options, r.trace, r.schedule, r.slot, r.tags, r.key,
                                r.metadata, r.enqueued_by, r.scheduled_for, r.links
                           from windlass.runs r
                          where r.tenant = t.tenant and r.id = t.id limit 1) n
     order by t.rank, t.ready_at, t.id;
end
$$;
