-- How many runs of a tenant there are, by status and by name: p_by is 'queue', 'job', or 'status',
-- whose names are those of the statuses. Exact up to p_most rows of a status. Beyond that it is
-- estimated: the whole by the planner's statistics, its parts by those of the first p_most rows.
-- Succeeded runs are counted by status only.
create or replace function windlass.count_runs(
  p_tenant text, p_by text default 'status', p_most integer default 10000
) returns table (name text, status text, count bigint, exact boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_others bigint := 0;
  v_exact boolean := true;
  v_row record;
begin
  for v_row in
    with sample as materialized (
      (select 'queued' as status, 'ready' as place, null as kind, q.queue, q.job
         from windlass.ready q where q.tenant = p_tenant limit p_most + 1)
      union all
      (select windlass.timer_status(t.why), 'timers', null, t.queue,
              t.job
         from windlass.timers t where t.tenant = p_tenant limit p_most + 1)
      union all
      (select 'running', 'leases', null, l.queue, l.job
         from windlass.leases l where l.tenant = p_tenant limit p_most + 1)
      union all
      (select 'failed', 'failures', 'failed', f.queue, f.job
         from windlass.failures f where f.status = 'failed' and f.tenant = p_tenant
        limit p_most + 1)
      union all
      (select 'canceled', 'failures', 'canceled', f.queue, f.job
         from windlass.failures f where f.status = 'canceled' and f.tenant = p_tenant
        limit p_most + 1)
    ), total as (
      select s.status, count(*) as seen,
             case when count(*) > p_most
                  then greatest(count(*), windlass.estimate_rows(min(s.place), p_tenant, min(s.kind)))
             end as guess
        from sample s group by s.status
    )
    select case p_by when 'queue' then s.queue when 'job' then s.job else s.status end as name,
           s.status, t.guess is null as exact,
           coalesce(round(count(*)::numeric * t.guess / t.seen), count(*))::bigint as count
      from sample s join total t on t.status = s.status
     group by 1, s.status, t.seen, t.guess
     order by 1, 2
  loop
    v_others := v_others + v_row.count;
    v_exact := v_exact and v_row.exact;
    return query select v_row.name, v_row.status, v_row.count, v_row.exact;
  end loop;
  if p_by <> 'status' then
    return;
  end if;
  select count(*) filter (where r.status = 'succeeded') as succeeded, count(*) as seen into v_row
    from (select r.status from windlass.runs r where r.tenant = p_tenant limit p_most + 1) r;
  v_exact := v_row.seen <= p_most;
  if not v_exact then
    v_row.succeeded := greatest(v_row.succeeded,
                                windlass.estimate_rows('runs', p_tenant) - v_others);
  end if;
  if v_row.succeeded > 0 then
    return query select 'succeeded', 'succeeded', v_row.succeeded, v_exact;
  end if;
end
$$;
