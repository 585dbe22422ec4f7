-- The heads of queues become leases of a worker that its caller found alive. Queues (null: all)
-- are visited in the order given until p_limit is reached; within a queue the most urgent
-- first, by (rank, ready_at, id). Only jobs that the worker knows.
--
-- p_after, {queue: {"rank", "ready_at", "id"}}, passes over a stretch that was looked at before,
-- or whose index entries are mostly dead. p_window bounds how many rows of a queue are looked at
-- from there on, so that a wall of jobs unknown to this worker costs a bounded amount. Leave
-- both null and nothing is missed. What is paused is passed over; the caller has the lock of the pauses,
-- taken in a statement before this one (see domain/pause.py). p_turn: which queue is first where p_queues is null.
--
-- Each row returned says what it is: run, a run that the worker now holds; stop, where the window
-- ended the look into a queue: (queue, rank, ready_at, id) is the last key looked at; or, where no
-- queue was named, queues: input is {"names": [those that have something ready, in the order of
-- the look], "seconds": what it took to find them}. That is much where many index entries are dead:
-- name the queues then, for a while.
create or replace function windlass.lease_heads(
  p_worker_no integer, p_claim_no bigint, p_limit integer, p_jobs text[],
  p_queues text[], p_after json, p_window integer, p_turn bigint, p_now timestamptz
) returns table (
  kind text, tenant text, id uuid, job text, queue text, token bigint, attempt integer,
  failures integer, crash_count integer, input json, options json, trace text, rank integer,
  ready_at timestamptz, started_at timestamptz, schedule uuid, slot timestamptz,
  deadline_at timestamptz, extras json
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_left integer := p_limit;
  v_queues text[] := p_queues;
  v_queue text;
  v_n integer := 0;
  v_ranks integer[];  -- where each queue begins, if that is known: entries before are dead
  v_times timestamptz[];
  v_began timestamptz;
  v_from record;
  v_places tid[];
  v_at timestamptz;
  v_jobs text[] := p_jobs;
  v_paused text[];
begin
  if exists (select 1 from windlass.pauses) then
    v_paused := windlass.paused_names();
    v_jobs := array (select j from unnest(p_jobs) j where not windlass.is_still('job', j));
  end if;
  if p_queues is null then
    v_began := clock_timestamp();
    select coalesce(array_agg(h.queue), '{}'), array_agg(h.rank), array_agg(h.ready_at)
      into v_queues, v_ranks, v_times from windlass.ready_heads(p_turn) h;
    kind := 'queues';
    input := json_build_object(
      'names', v_queues, 'seconds', extract(epoch from clock_timestamp() - v_began));
    return next;
    input := null;
  end if;
  foreach v_queue in array v_queues loop
    exit when v_left <= 0 or cardinality(v_jobs) = 0;
    v_n := v_n + 1;
    continue when v_paused is not null and windlass.is_still('queue', v_queue);
    select coalesce((m ->> 'rank')::integer, v_ranks[v_n], -2147483648) as rank,
           coalesce((m ->> 'ready_at')::timestamptz, v_times[v_n], '-infinity') as ready_at,
           coalesce((m ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') as id
      into v_from from (select p_after -> v_queue as m) a;
    -- Rows are looked at in claim order, no more of them than the window, and none after the
    -- last one that is taken; only those that are taken are locked. A CTE is read as far as
    -- it is asked for, in the order in which it is made.
    with seen as materialized (
      select r.ctid as place, r.job, r.expires_at, r.deadline_at, r.rank, r.ready_at, r.id,
             r.tenant
        from windlass.ready r
       where r.queue = v_queue
         and (r.rank, r.ready_at, r.id) > (v_from.rank, v_from.ready_at, v_from.id)
       order by r.rank, r.ready_at, r.id
       limit p_window
    ), picked as materialized (
      select l.place
        from seen s
       cross join lateral (select r.ctid as place from windlass.ready r
                            where r.ctid = s.place for update skip locked) l
       where s.job = any (v_jobs) and (s.expires_at is null or s.expires_at > p_now)
         and (s.deadline_at is null or s.deadline_at > p_now)
         and (v_paused is null or not windlass.is_paused(v_paused, s.tenant, v_queue, s.job))
       limit v_left
    )
    select p.places, e.rank, e.ready_at, e.id into v_places, rank, ready_at, id
      from (select array_agg(picked.place) as places, count(*) as number from picked) p
      left join lateral (select s.rank, s.ready_at, s.id from seen s
                          where p.number < v_left and p_window is not null
                         offset p_window - 1 limit 1) e on true;
    if id is not null then
      kind := 'stop';
      queue := v_queue;
      return next;
    end if;
    continue when v_places is null;
    v_left := v_left - cardinality(v_places);
    v_at := windlass.now();  -- once the rows are ours: a run's events do not go back
    return query
      with taken as (
        delete from windlass.ready r
         where r.ctid = any (v_places)
        returning r.tenant, r.id, r.job, r.queue, r.rank, r.ready_at, r.attempt + 1 as attempt,
                  r.failures, r.crash_count, r.token + 1 as token, r.seq + 1 as seq,
                  r.deadline_at
      ), leased as (
        insert into windlass.leases (tenant, id, job, queue, rank, worker_no, claim_no, started_at,
                                     token, attempt, failures, crash_count, seq, started_seq,
                                     deadline_at)
        select t.tenant, t.id, t.job, t.queue, t.rank, p_worker_no, p_claim_no, v_at,
               t.token, t.attempt, t.failures, t.crash_count, t.seq, t.seq, t.deadline_at
          from taken t
      ), paged as (
        -- The lease tells of the event, see windlass.events.
        insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
        select windlass.page_moment(), v_at, t.seq, t.attempt, t.tenant, 'run.started',
               array_agg(t.id)
          from taken t group by t.tenant, t.seq, t.attempt
      )
      select 'run', t.tenant, t.id, t.job, t.queue, t.token, t.attempt, t.failures,
             t.crash_count, n.input, n.options, n.trace, t.rank, t.ready_at, v_at, n.schedule,
             n.slot, t.deadline_at,
             windlass.extras_of(n.tags, n.key, n.metadata, n.enqueued_by, n.scheduled_for,
                                t.ready_at, n.links)
        from taken t
       cross join lateral (select r.input, r.options, r.trace, r.schedule, r.slot, r.tags, r.key,
                                  r.metadata, r.enqueued_by, r.scheduled_for, r.links
                             from windlass.runs r
                            where r.tenant = t.tenant and r.id = t.id limit 1) n
       order by t.rank, t.ready_at, t.id;
  end loop;
end
$$;
