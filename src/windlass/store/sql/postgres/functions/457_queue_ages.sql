-- Since when the oldest ready run of a tenant has been ready, in each queue that has one. The first
-- row has no queue, only the time of the look (seen_at). One probe of the index for each queue and
-- priority; the first p_most runs of each are looked through for one of the tenant.
create or replace function windlass.queue_ages(p_tenant text, p_most integer default 1000)
returns table (queue text, oldest_at timestamptz, seen_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := windlass.now();
begin
  return query select '', null::timestamptz, v_now;
  return query
    with recursive head (queue, rank) as (
      (select r.queue, r.rank from windlass.ready r where r.queue is not null
        order by r.queue, r.rank limit 1)
      union all
      select n.queue, n.rank
        from head h
       cross join lateral (select r.queue, r.rank from windlass.ready r
                            where (r.queue, r.rank) > (h.queue, h.rank) and r.queue is not null
                            order by r.queue, r.rank limit 1) n
    )
    select h.queue, min(o.ready_at), v_now
      from head h
     cross join lateral (
       select w.ready_at
         from (select r.tenant, r.ready_at from windlass.ready r
                where r.queue = h.queue and r.rank = h.rank
                order by r.ready_at limit p_most) w
        where w.tenant = p_tenant limit 1) o
     group by h.queue order by h.queue;
end
$$;
