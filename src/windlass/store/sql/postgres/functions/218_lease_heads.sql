-- The heads of queues become leases of a worker that its caller found alive. Queues (null: all)
-- are visited in the order given until p_limit is reached; within a queue the most urgent
-- first, by (rank, ready_at, id). Only jobs that the worker knows.
--
-- p_after, {queue: {"rank", "ready_at", "id"}}, passes over a stretch whose index entries are
-- mostly dead: the last key that this worker took. p_window bounds how many rows are looked
-- at from there on, so that a wall of jobs unknown to this worker costs a bounded amount.
-- Both are hints of a busy worker; leave them null and nothing is missed.
create or replace function windlass.lease_heads(
  p_worker text, p_claim_no bigint, p_limit integer, p_jobs text[],
  p_queues text[], p_after json, p_window integer, p_now timestamptz
) returns table (
  tenant text, id uuid, job text, queue text, token bigint, attempt integer, failures integer,
  crash_count integer, input json, options json, trace text, rank integer,
  ready_at timestamptz, started_at timestamptz, schedule uuid, slot timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_left integer := p_limit;
  v_count integer;
  v_queue text;
  v_from record;
  v_to record;
begin
  foreach v_queue in array coalesce(p_queues, windlass.ready_queues(p_claim_no)) loop
    exit when v_left <= 0;
    select coalesce((m ->> 'rank')::integer, -2147483648) as rank,
           coalesce((m ->> 'ready_at')::timestamptz, '-infinity') as ready_at,
           coalesce((m ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') as id
      into v_from from (select p_after -> v_queue as m) a;
    select * into v_to
      from windlass.window_end(v_queue, v_from.rank, v_from.ready_at, v_from.id, p_window);
    return query
      with picked as materialized (
        select r.ctid as place
          from windlass.ready r
         where r.queue = v_queue
           and (r.rank, r.ready_at, r.id) > (v_from.rank, v_from.ready_at, v_from.id)
           and (r.rank, r.ready_at, r.id) <= (v_to.rank, v_to.ready_at, v_to.id)
           and r.job = any (p_jobs)
           and (r.expires_at is null or r.expires_at > p_now)
         order by r.rank, r.ready_at, r.id
         limit v_left
           for update skip locked
      ), stamp as materialized (
        -- The time is taken once the rows are ours: a run's events do not go back.
        select count(*) as locked, windlass.now() as at from picked
      ), taken as (
        delete from windlass.ready r
         where r.ctid = any (array (select p.place from picked p))
        returning r.tenant, r.id, r.job, r.queue, r.rank, r.ready_at, r.attempt + 1 as attempt,
                  r.failures, r.crash_count, r.token + 1 as token, r.seq + 1 as seq,
                  r.expires_at
      ), leased as (
        insert into windlass.leases (tenant, id, job, queue, rank, worker, claim_no, started_at,
                                     attempt, failures, crash_count, token, seq, expires_at)
        select t.tenant, t.id, t.job, t.queue, t.rank, p_worker, p_claim_no, s.at,
               t.attempt, t.failures, t.crash_count, t.token, t.seq, t.expires_at
          from taken t, stamp s
      ), logged as (
        insert into windlass.events (tenant, subject, seq, type, at, attempt)
        select t.tenant, t.id, t.seq, 'run.started', s.at, t.attempt from taken t, stamp s
      )
      select t.tenant, t.id, t.job, t.queue, t.token, t.attempt, t.failures, t.crash_count,
             n.input, n.options, n.trace, t.rank, t.ready_at, s.at, n.schedule, n.slot
        from taken t
       cross join stamp s
       cross join lateral (select r.input, r.options, r.trace, r.schedule, r.slot
                             from windlass.runs r
                            where r.tenant = t.tenant and r.id = t.id limit 1) n
       order by t.rank, t.ready_at, t.id;
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;
  end loop;
end
$$;
