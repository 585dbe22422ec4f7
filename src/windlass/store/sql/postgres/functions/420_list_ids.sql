-- The ids of one page of a listing, newest first. One query per kind of listing: live
-- statuses from their position table, failed and canceled from failures, succeeded by
-- walking the records backwards.
create or replace function windlass.list_ids(
  p_tenant text, p_status text default null, p_job text default null, p_queue text default null,
  p_tag text default null, p_failure text default null, p_dead boolean default false,
  p_created_from timestamptz default null, p_created_to timestamptz default null,
  p_before uuid default null, p_limit integer default 50
) returns setof uuid
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
set plan_cache_mode = force_custom_plan
as $$
declare
  -- Ids begin with their maker's clock. A day of slack for clocks that are off; created_at,
  -- the store's clock, decides.
  v_low uuid := coalesce(windlass.id_at(p_created_from - interval '1 day'),
                         '00000000-0000-0000-0000-000000000000');
  v_high uuid := least(coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
                       coalesce(windlass.id_at(p_created_to + interval '1 day'),
                                'ffffffff-ffff-ffff-ffff-ffffffffffff'));
begin
  if p_tag is not null then
    return query
      -- A tag together with any other filter: its runs are looked at one by one, newest first,
      -- each by its keys, until the page is full.
      select g.id from windlass.run_tags g
       cross join lateral (select r.job, r.queue, r.status, r.failure, r.created_at
                             from windlass.runs r
                            where r.tenant = g.tenant and r.id = g.id limit 1) r
       where g.tenant = p_tenant and g.tag = p_tag and g.id < v_high and g.id >= v_low
         and (p_job is null or r.job = p_job) and (p_queue is null or r.queue = p_queue)
         and (p_failure is null or r.failure = p_failure)
         and (p_created_from is null or r.created_at >= p_created_from)
         and (p_created_to is null or r.created_at < p_created_to)
         and (not p_dead
              or (r.status = 'failed'
                  and (select f.discarded_at is null from windlass.failures f
                        where f.tenant = g.tenant and f.id = g.id)))
         and (p_status is null
              or p_status = coalesce(
                   r.status,
                   (select 'queued' from windlass.ready q
                     where q.tenant = g.tenant and q.id = g.id),
                   (select 'running' from windlass.leases l
                     where l.tenant = g.tenant and l.id = g.id),
                   'scheduled'))
       order by g.id desc limit p_limit;
  elsif p_dead or p_status in ('failed', 'canceled') or p_failure is not null then
    return query
      select f.id from windlass.failures f
        join windlass.runs r on r.tenant = f.tenant and r.id = f.id
       where f.tenant = p_tenant
         and f.status = case when p_dead or p_failure is not null then 'failed'
                             else p_status end
         and (p_status is null or f.status = p_status)
         and f.id < v_high and f.id >= v_low
         and (not p_dead or f.discarded_at is null)
         and (p_failure is null or f.failure = p_failure)
         and (p_job is null or f.job = p_job) and (p_queue is null or f.queue = p_queue)
         and (p_created_from is null or r.created_at >= p_created_from)
         and (p_created_to is null or r.created_at < p_created_to)
       order by f.id desc limit p_limit;
  elsif p_status = 'queued' then
    return query
      select q.id from windlass.ready q
        join windlass.runs r on r.tenant = q.tenant and r.id = q.id
       where q.tenant = p_tenant and q.id < v_high and q.id >= v_low
         and (p_job is null or q.job = p_job) and (p_queue is null or q.queue = p_queue)
         and (p_created_from is null or r.created_at >= p_created_from)
         and (p_created_to is null or r.created_at < p_created_to)
       order by q.id desc limit p_limit;
  elsif p_status = 'scheduled' then
    return query
      select t.id from windlass.timers t
        join windlass.runs r on r.tenant = t.tenant and r.id = t.id
       where t.tenant = p_tenant and t.id < v_high and t.id >= v_low
         and (p_job is null or t.job = p_job) and (p_queue is null or t.queue = p_queue)
         and (p_created_from is null or r.created_at >= p_created_from)
         and (p_created_to is null or r.created_at < p_created_to)
       order by t.id desc limit p_limit;
  elsif p_status = 'running' then
    return query
      select l.id from windlass.leases l
        join windlass.runs r on r.tenant = l.tenant and r.id = l.id
       where l.tenant = p_tenant and l.id < v_high and l.id >= v_low
         and (p_job is null or l.job = p_job) and (p_queue is null or l.queue = p_queue)
         and (p_created_from is null or r.created_at >= p_created_from)
         and (p_created_to is null or r.created_at < p_created_to)
       order by l.id desc limit p_limit;
  elsif p_job is not null then
    return query
      -- Written so that only the index by job has this order. Its predicate, that there is a job,
      -- follows from the third comparison alone.
      select r.id from windlass.runs r
       where (r.job, r.tenant, r.id) < (p_job, p_tenant, v_high)
         and (r.job, r.tenant, r.id) >= (p_job, p_tenant, v_low)
         and r.job <> ''
         and (p_status is null or r.status = p_status)
         and (p_queue is null or r.queue = p_queue)
         and (p_created_from is null or r.created_at >= p_created_from)
         and (p_created_to is null or r.created_at < p_created_to)
       order by r.job desc, r.tenant desc, r.id desc limit p_limit;
  else
    return query
      select r.id from windlass.runs r
       where r.tenant = p_tenant and r.id < v_high and r.id >= v_low
         and (p_status is null or r.status = p_status)
         and (p_queue is null or r.queue = p_queue)
         and (p_created_from is null or r.created_at >= p_created_from)
         and (p_created_to is null or r.created_at < p_created_to)
       order by r.id desc limit p_limit;
  end if;
end
$$;
