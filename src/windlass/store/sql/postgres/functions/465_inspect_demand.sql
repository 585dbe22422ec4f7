-- What is ready, by queue and job, as found in the first p_most runs of each queue, over all tenants.
-- paused: how many of them may not be started now.
-- Only the head of a queue is read, in claim order, so a long one costs no more than a short one.
create or replace function windlass.inspect_demand(p_most integer default 1000)
returns table (
  queue text, job text, waiting bigint, oldest_at timestamptz, seen_at timestamptz, paused bigint
)
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
  v_paused text[] := windlass.paused_names();
begin
  return query
    select q.queue, h.job, count(*), min(h.ready_at), v_now,
           count(*) filter (where windlass.is_paused(v_paused, h.tenant, q.queue, h.job))
      from windlass.ready_heads(0) q
     cross join lateral (select r.job, r.ready_at, r.tenant from windlass.ready r
                          where r.queue = q.queue
                            and (r.rank, r.ready_at) >= (q.rank, q.ready_at)
                          order by r.rank, r.ready_at, r.id limit p_most) h
     group by q.queue, h.job
     order by q.queue, min(h.ready_at), h.job;
end
$$;
