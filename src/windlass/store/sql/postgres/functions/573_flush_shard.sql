-- Write down how far a shard is, under the token of its lease. p_shard: succeeded, failed (counts by now, not
-- what has been added), place, done, failures (n, unit, error), max_failed. Returns {"stopped": why the batch
-- was stopped}, or null if the lease, or its place, is lost.
--
-- Flushes with failures are counted one after another: each has the row of the batch locked, and counts in
-- the next statement.
create or replace function windlass.flush_shard(
  p_tenant text, p_id uuid, p_token bigint, p_shard json
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_place record;
  v_most bigint := (p_shard ->> 'max_failed')::bigint;
begin
  perform windlass.check_escapes('shard', p_shard);
  select * into v_place from windlass.place_of_shard(p_tenant, p_id, p_token);
  if not found then
    return null;
  end if;
  -- A shard that gets on is no poison: its crashes count anew.
  update windlass.leases l set crash_count = 0
   where l.tenant = p_tenant and l.id = p_id and l.crash_count > 0
     and exists (select 1 from windlass.shards s
                  where s.tenant = p_tenant and s.batch = v_place.batch and s.n = v_place.n
                    and s.succeeded + s.failed
                        < (p_shard ->> 'succeeded')::bigint + (p_shard ->> 'failed')::bigint);
  update windlass.shards s
     set succeeded = (p_shard ->> 'succeeded')::bigint, failed = (p_shard ->> 'failed')::bigint,
         place = p_shard -> 'place', done = (p_shard ->> 'done')::boolean
   where s.tenant = p_tenant and s.batch = v_place.batch and s.n = v_place.n;
  if not found then
    perform windlass.refuse('flush_shard', 'held', 'is not the lease of a shard that was opened');
  end if;
  insert into windlass.unit_failures (tenant, batch, n, shard, unit, error)
  select p_tenant, v_place.batch, x.n, v_place.n, x.unit, windlass.check_error('unit', x.error)
    from json_to_recordset(p_shard -> 'failures') as x(n bigint, unit json, error json)
   order by x.n
  on conflict (tenant, batch, n) do update set unit = excluded.unit, error = excluded.error;
  if found and v_most is not null then
    perform 1 from windlass.batches b
      where b.tenant = p_tenant and b.run = v_place.batch for update;
    update windlass.batches b set stopped = 'max_failed'
     where b.tenant = p_tenant and b.run = v_place.batch and b.stopped is null
       and (select sum(s.failed) from windlass.shards s
             where s.tenant = p_tenant and s.batch = v_place.batch) > v_most;
  end if;
  return (select json_build_object('stopped', b.stopped) from windlass.batches b
           where b.tenant = p_tenant and b.run = v_place.batch);
end
$$;
