-- Which of these runs fit, in the order given. What of the filter is null is not compared. Dead letters
-- are the failed runs that nobody has discarded.
create or replace function windlass.fitting_ids(p_filter windlass.run_filter, p_ids uuid[])
returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_custom_plan
as $$
declare
  v_workers integer[] := array(select n.worker_no from windlass.worker_names n
                                where n.name = p_filter.worker);
begin
  return array(
    select i.id
      from unnest(p_ids) with ordinality as i(id, place)
     cross join lateral (select * from windlass.runs x
                          where x.tenant = p_filter.tenant and x.id = i.id limit 1) r
     where (p_filter.job is null or r.job = p_filter.job)
       and (p_filter.queue is null or r.queue = p_filter.queue)
       and (p_filter.key is null or r.key = p_filter.key)
       and (p_filter.schedule is null or r.schedule = p_filter.schedule)
       and (p_filter.failure is null or r.failure = p_filter.failure)
       and (p_filter.created_from is null or r.created_at >= p_filter.created_from)
       and (p_filter.created_to is null or r.created_at < p_filter.created_to)
       and (p_filter.finished_from is null or r.finished_at >= p_filter.finished_from)
       and (p_filter.finished_to is null or r.finished_at < p_filter.finished_to)
       and (p_filter.tag is null
            or exists (select 1 from windlass.run_tags g
                        where g.tenant = r.tenant and g.tag = p_filter.tag and g.id = r.id))
       and (p_filter.worker is null
            or coalesce(r.worker_no, (select l.worker_no from windlass.leases l
                                       where l.tenant = r.tenant and l.id = r.id))
               = any (v_workers))
       and (not coalesce(p_filter.dead, false)
            or (r.status = 'failed'
                and (select f.discarded_at is null from windlass.failures f
                      where f.tenant = r.tenant and f.id = r.id)))
       and (p_filter.error is null
            or exists (select 1 from windlass.failures f
                        where f.tenant = r.tenant and f.id = r.id
                          and (f.error_type = p_filter.error
                               or right(f.error_type, length(p_filter.error) + 1)
                                  = '.' || p_filter.error)))
       and (p_filter.statuses is null
            or coalesce(r.status,
                        (select 'queued' from windlass.ready q
                          where q.tenant = r.tenant and q.id = r.id),
                        (select 'running' from windlass.leases l
                          where l.tenant = r.tenant and l.id = r.id),
                        -- Compared out here, or the index of those that wait would be walked.
                        (select windlass.timer_status(t.why) from windlass.timers t
                          where t.tenant = r.tenant and t.id = r.id),
                        'scheduled') = any (p_filter.statuses))
     order by i.place);
end
$$;
