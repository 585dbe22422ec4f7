-- Remember steps of runs, each under the token of its run's lease. Items: tenant, id, token, path, kind
-- (step, value, sleep, signal, race, version, phase), state (done, failed, retrying, waiting), and as they
-- apply value, error, failures, wait (seconds until it goes on), took (seconds since it began), input
-- (what it was called with, to be compared), signal (the name of the one that it waits for).
--
-- A step that has ended stays as it is. One that waits keeps the time until which it waits; if a signal
-- of its name is there that answered no other, the first of them answers it, and if its time is over,
-- it has timed out. Returns a row for each item, in order: its step as it is now, or
--   lost   the lease is not held under that token: nothing was written
--   busy   somebody has the lease locked: send that item again, alone, and it is waited for
--
-- Leases are locked in one statement and signals read in the next: whoever sends a signal has had the
-- lease locked, and is seen.
create or replace function windlass.record_steps(p_items json)
returns table (
  answer text, path text, kind text, state text, seq integer, attempt integer, failures integer,
  started_at timestamptz, at timestamptz, until timestamptz, input text, signal text, value json,
  error json, seconds_left double precision
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_item json;
  v_now timestamptz;
  v_tenants text[];
  v_ids uuid[];
  v_tokens bigint[];
  v_seqs integer[];
  v_attempts integer[];
  v_retries boolean;
begin
  perform windlass.check_escapes('list of steps', p_items);
  select bool_or(x.state = 'retrying'),
         bool_or(windlass.check_step(x.path, x.signal, x.kind, x.state, x.failures, x.wait,
                                     x.took))
    into v_retries
    from json_to_recordset(p_items)
         as x(path text, signal text, kind text, state text, failures integer,
              wait double precision, took double precision);
  if v_retries and json_array_length(p_items) > 1 then
    -- Its event has a row, which would come after those of the others in the feed.
    for v_item in select i.value from json_array_elements(p_items) i loop
      return query select * from windlass.record_steps(json_build_array(v_item));
    end loop;
    return;
  end if;
  if (select count(distinct (x.tenant, x.id))
        from json_to_recordset(p_items) as x(tenant text, id uuid)) = 1 then
    perform 1
       from json_to_recordset(p_items) as x(tenant text, id uuid, token bigint)
      cross join lateral (select 1 from windlass.leases l
                           where l.tenant = x.tenant and l.id = x.id and l.token = x.token
                             for update) l;
  end if;
  select array_agg(l.tenant), array_agg(l.id), array_agg(l.token), array_agg(l.seq),
         array_agg(l.attempt)
    into v_tenants, v_ids, v_tokens, v_seqs, v_attempts
    from (select distinct x.tenant, x.id, x.token
            from json_to_recordset(p_items) as x(tenant text, id uuid, token bigint)
           order by x.tenant, x.id) i
   cross join lateral (select l.tenant, l.id, l.token, l.seq, l.attempt from windlass.leases l
                        where l.tenant = i.tenant and l.id = i.id and l.token = i.token
                          for update skip locked) l;
  v_now := windlass.now();
  return query
    with item as materialized (
      select x.*
        from rows from (json_to_recordset(p_items)
               as (tenant text, id uuid, token bigint, path text, kind text, state text,
                   input text, signal text, value json, error json, failures integer,
                   wait double precision, took double precision))
             with ordinality
               as x(tenant, id, token, path, kind, state, input, signal, value, error, failures,
                    wait, took, n)
    ), known as materialized (
      select i.n, i.tenant, i.id, i.token, i.path, i.kind, i.state, i.input, i.signal, i.value,
             i.error, i.failures, i.wait, i.took, h.seq as base, h.attempt,
             k.state as old_state, k.until as old_until, k.started_at as old_start, k.at as old_at,
             k.seq as old_seq, k.value as old_value, k.error as old_error, k.attempt as old_attempt,
             k.failures as old_failures, k.input as old_input, k.kind as old_kind,
             coalesce(k.state in ('done', 'failed', 'timed_out'), false) as ended,
             row_number() over (partition by i.tenant, i.id, i.path order by i.n) as turn
        from item i
        join unnest(v_tenants, v_ids, v_tokens, v_seqs, v_attempts)
             as h(tenant, id, token, seq, attempt)
          on h.tenant = i.tenant and h.id = i.id and h.token = i.token
        left join lateral (select s.* from windlass.steps s
                            where s.tenant = i.tenant and s.run = i.id and s.generation = 0
                              and s.path = i.path limit 1) k on true
    ), fresh as materialized (
      -- Of several that wait for the same signal, each has one of its own.
      select k.*, g.number, g.payload,
             -- It began to wait when it was first asked for; if that was without an end, so it stays.
             case when k.old_state is not null then k.old_until
                  else v_now + make_interval(secs => k.wait) end as until
        from (select k.*, row_number() over (partition by k.tenant, k.id, k.signal order by k.n)
                       as among
                from known k where not k.ended and k.turn = 1) k
        left join lateral (select g.number, g.payload from windlass.signals g
                            where k.state = 'waiting' and k.signal is not null
                              and g.tenant = k.tenant and g.run = k.id and g.name = k.signal
                              and g.taken_by is null
                            order by g.number offset k.among - 1 limit 1) g on true
    ), decided as materialized (
      select f.n, f.tenant, f.id, f.path, f.kind, f.base, f.attempt, f.input, f.signal, f.number,
             case when f.number is not null then 'done'
                  when f.state = 'waiting' and f.signal is not null and f.until <= v_now
                  then 'timed_out' else f.state end as state,
             case when f.number is not null then f.payload
                  when f.value is not null then windlass.check_result(f.value) end as value,
             windlass.check_error(f.path, f.error) as error,
             coalesce(f.failures, 0) as failures,
             case when f.state = 'waiting' then f.until
                  else v_now + make_interval(secs => f.wait) end as until,
             coalesce(f.old_start, v_now - make_interval(secs => coalesce(f.took, 0))) as started_at,
             f.old_state is not distinct from 'waiting' and f.state = 'waiting' as waited
        from fresh f
    ), told as materialized (
      select d.*,
             case when d.state <> 'waiting'
                  then d.base + (row_number() over (partition by d.tenant, d.id, d.state = 'waiting'
                                                    order by d.n))::integer end as seq
        from decided d
    ), put as (
      insert into windlass.steps (tenant, run, path, kind, state, seq, attempt, failures, started_at,
                                  at, until, input, signal, value, error)
      select t.tenant, t.id, t.path, t.kind, t.state,
             case when t.state <> 'retrying' then t.seq end, t.attempt, t.failures, t.started_at,
             v_now, t.until, t.input, t.signal, t.value, t.error
        from told t where not (t.waited and t.state = 'waiting')
      on conflict (tenant, run, generation, path) do update
        set state = excluded.state, seq = excluded.seq, attempt = excluded.attempt,
            failures = excluded.failures, at = excluded.at, until = excluded.until,
            value = excluded.value, error = excluded.error
    ), taken as (
      update windlass.signals g set taken_by = t.path
        from told t
       where g.tenant = any (array[t.tenant]) and g.run = t.id and g.number = t.number
    ), counted as (
      update windlass.leases l set seq = m.seq
        from (select t.tenant, t.id, max(t.seq) as seq from told t
               where t.seq is not null group by t.tenant, t.id) m
       where l.tenant = any (array[m.tenant]) and l.id = m.id
    ), retried as (
      insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
      select t.tenant, t.id, t.seq, 'step.retrying', v_now, t.attempt,
             json_build_object('step', t.path, 'failures', t.failures,
                               'delay', extract(epoch from t.until - v_now))
        from told t where t.state = 'retrying'
    ), paged as (
      insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects, data)
      select windlass.page_moment(), v_now, p.seq, p.attempt, p.tenant, p.type, p.subjects,
             array_fill(json_build_object('step', p.path), array[cardinality(p.subjects)])
        from (select t.tenant, t.seq, t.attempt, t.path,
                     case when t.state = 'done' and t.kind = 'phase' then 'phase.completed'
                          when t.state = 'done' then 'step.succeeded'
                          when t.state = 'failed' then 'step.failed'
                          else 'step.timed_out' end as type,
                     array_agg(t.id) as subjects
                from told t where t.seq is not null and t.state <> 'retrying'
               group by t.tenant, t.seq, t.attempt, t.path, 5
               order by t.seq) p
    )
    select case when k.n is not null then 'step' when b.busy then 'busy' else 'lost' end,
           i.path, coalesce(t.kind, k.old_kind), coalesce(t.state, k.old_state),
           case when t.n is null then k.old_seq when t.state <> 'retrying' then t.seq end,
           coalesce(t.attempt, k.old_attempt), coalesce(t.failures, k.old_failures),
           coalesce(t.started_at, k.old_start),
           case when t.n is null or (t.waited and t.state = 'waiting') then k.old_at else v_now end,
           case when t.n is null then k.old_until else t.until end,
           case when t.n is null then k.old_input else t.input end, i.signal,
           case when t.n is null then k.old_value else t.value end,
           case when t.n is null then k.old_error else t.error end,
           extract(epoch from case when t.n is null then k.old_until else t.until end - v_now)
             ::double precision
      from item i
      left join known k on k.n = i.n
      left join told t on t.tenant = k.tenant and t.id = k.id and t.path = k.path
      left join lateral (select true as busy from windlass.leases l
                          where k.n is null and l.tenant = i.tenant and l.id = i.id
                            and l.token = i.token limit 1) b on true
     order by i.n;
end
$$;
