-- How far a batch is, in one row whose numbers add up; none if the run is no batch, or has not started.
create or replace function windlass.get_batch(p_tenant text, p_run uuid)
returns table (total bigint, succeeded bigint, failed bigint, shards integer, shards_done bigint,
               stopped text)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
    select coalesce(b.total, case when s.done = s.rows and s.rows > 0
                                  then s.succeeded + s.failed end),
           s.succeeded, s.failed, b.shards, s.done, b.stopped
      from windlass.batches b
      cross join lateral (
        select coalesce(sum(s.succeeded), 0)::bigint as succeeded,
               coalesce(sum(s.failed), 0)::bigint as failed,
               count(*) as rows, count(*) filter (where s.done) as done
          from windlass.shards s where s.tenant = b.tenant and s.batch = b.run) s
     where b.tenant = p_tenant and b.run = p_run;
end
$$;
