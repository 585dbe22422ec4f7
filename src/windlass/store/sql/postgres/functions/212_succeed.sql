-- Record successes, the usual end, by parallel arrays: the same as windlass.finish with
-- outcome 'succeeded', without the reading of JSON. p_results may be null (no run has a result).
-- Returns the items that were not recorded: busy, where somebody has the lease locked (send it again),
-- or else where it is not held under that token.
create or replace function windlass.succeed(
  p_tenants text[], p_ids uuid[], p_tokens bigint[], p_results json[] default null
) returns table (tenant text, id uuid, token bigint, busy boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_gone integer;
  v_tenants text[];
  v_ids uuid[];
  v_tokens bigint[];
begin
  perform windlass.check_json('result', p_results);
  with held as materialized (
    select l.place, x.result
      from unnest(p_tenants, p_ids, p_tokens, p_results) as x(tenant, id, token, result)
     cross join lateral (select l.ctid as place from windlass.leases l
                          where l.tenant = x.tenant and l.id = x.id and l.token = x.token
                            for update skip locked) l
  ), gone as (
    delete from windlass.leases l using held h where l.ctid = h.place
    returning l.tenant, l.id, l.worker, l.started_at, l.attempt, l.failures, l.crash_count,
              l.token, l.seq + 1 as seq, h.result
  ), stamp as materialized (
    -- The time is taken once the rows are ours: a run's events do not go back.
    select count(*) as taken, windlass.now() as at from gone
  ), ended as (
    update windlass.runs r
       set status = 'succeeded', result = g.result, attempt = g.attempt,
           failures = g.failures, crash_count = g.crash_count, token = g.token, seq = g.seq,
           started_at = g.started_at, finished_at = s.at
      from gone g, stamp s
     where r.tenant = any (array[g.tenant]) and r.id = g.id
  ), attempted as (
    insert into windlass.attempts (tenant, run, attempt, token, worker, outcome,
                                   started_at, finished_at)
    select g.tenant, g.id, g.attempt, g.token, g.worker, 'succeeded', g.started_at, s.at
      from gone g, stamp s
  ), logged as (
    insert into windlass.events (tenant, subject, seq, type, at, attempt)
    select g.tenant, g.id, g.seq, 'run.succeeded', s.at, g.attempt from gone g, stamp s
  )
  select count(*), array_agg(g.tenant), array_agg(g.id), array_agg(g.token)
    into v_gone, v_tenants, v_ids, v_tokens
    from gone g;

  if v_gone < cardinality(p_ids) then
    return query
      select x.tenant, x.id, x.token,
             (select true from windlass.leases l
               where l.tenant = x.tenant and l.id = x.id and l.token = x.token limit 1) is not null
        from unnest(p_tenants, p_ids, p_tokens) as x(tenant, id, token)
       where not exists (select 1 from unnest(v_tenants, v_ids, v_tokens) as g(tenant, id, token)
                          where g.tenant = x.tenant and g.id = x.id and g.token = x.token);
  end if;
end
$$;
