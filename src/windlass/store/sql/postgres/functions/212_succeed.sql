-- Record successes, the usual end, by parallel arrays: the same as windlass.finish with
-- outcome 'succeeded', without the reading of JSON. p_results may be null (no run has a result).
-- Returns the items that were not recorded: busy, where somebody has the lease locked (send it again),
-- or else where it is not held under that token.
--
-- Nobody has locked a lease whose xmax is zero: the first round deletes these without locking each of
-- them before. Only if some are left, a second one locks what it can, and passes over the others.
create or replace function windlass.succeed(
  p_tenants text[], p_ids uuid[], p_tokens bigint[], p_results json[] default null
) returns table (tenant text, id uuid, token bigint, busy boolean)
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
  v_tenants text[] := p_tenants;
  v_ids uuid[] := p_ids;
  v_tokens bigint[] := p_tokens;
  v_results json[] := p_results;
  v_locked boolean := false;
  v_gone_ids uuid[];
  v_gone_tokens bigint[];
  v_gone_tenants text[];
begin
  perform windlass.check_json('result', p_results);
  loop
    with gone as (
      delete from windlass.leases l
       using unnest(v_tenants, v_ids, v_tokens, v_results) as x(tenant, id, token, result)
       where l.tenant = any (array[x.tenant]) and l.id = x.id and l.token = x.token
         and (l.xmax = '0' or v_locked)
      returning l.tenant, l.id, l.worker_no, l.started_at, l.started_seq, l.attempt, l.failures,
                l.crash_count, l.token, l.seq + 1 as seq, x.result
    ), stamp as materialized (
      -- The time is taken once the rows are ours: a run's events do not go back.
      select count(*) as taken, windlass.now() as at from gone
    ), ended as (
      update windlass.runs r
         set status = 'succeeded', result = g.result, attempt = g.attempt,
             failures = g.failures, crash_count = g.crash_count, token = g.token, seq = g.seq,
             started_seq = g.started_seq, started_at = g.started_at, finished_at = s.at,
             worker_no = g.worker_no
        from gone g, stamp s
       where r.tenant = any (array[g.tenant]) and r.id = g.id
    ), paged as (
      -- The record tells of the attempt and of the event, see windlass.events.
      insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
      select windlass.page_moment(), s.at, g.seq, g.attempt, g.tenant, 'run.succeeded',
             array_agg(g.id)
        from gone g, stamp s group by g.tenant, g.seq, g.attempt, s.at
    )
    select v_gone_tenants || array_agg(g.tenant), v_gone_ids || array_agg(g.id),
           v_gone_tokens || array_agg(g.token)
      into v_gone_tenants, v_gone_ids, v_gone_tokens
      from gone g;
    if v_locked or coalesce(cardinality(v_gone_ids), 0) = cardinality(p_ids) then
      exit;
    end if;
    v_locked := true;
    select array_agg(x.tenant), array_agg(x.id), array_agg(x.token), array_agg(x.result)
      into v_tenants, v_ids, v_tokens, v_results
      from unnest(p_tenants, p_ids, p_tokens, p_results) as x(tenant, id, token, result)
     cross join lateral (select 1 from windlass.leases l
                          where l.tenant = x.tenant and l.id = x.id and l.token = x.token
                            for update skip locked) l;
    exit when v_ids is null;
  end loop;
  if coalesce(cardinality(v_gone_ids), 0) < cardinality(p_ids) then
    return query
      select x.tenant, x.id, x.token,
             (select true from windlass.leases l
               where l.tenant = x.tenant and l.id = x.id and l.token = x.token limit 1) is not null
        from unnest(p_tenants, p_ids, p_tokens) as x(tenant, id, token)
       where not exists (select 1
                           from unnest(v_gone_tenants, v_gone_ids, v_gone_tokens)
                                as g(tenant, id, token)
                          where g.tenant = x.tenant and g.id = x.id and g.token = x.token);
  end if;
end
$$;
