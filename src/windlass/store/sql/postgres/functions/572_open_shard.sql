-- The shard that a run is, under the token of its lease; it is made if it is not there, with the
-- units that its number means. Returns it with the input of its batch, or null if the lease, or its place, is lost.
create or replace function windlass.open_shard(
  p_tenant text, p_id uuid, p_token bigint
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
begin
  select * into v_place from windlass.place_of_shard(p_tenant, p_id, p_token);
  if not found then
    return null;
  end if;
  insert into windlass.shards (tenant, batch, n, first, until)
  select b.tenant, b.run, v_place.n, case when b.total is null then 0 else v_place.n::bigint * b.size end,
         case when b.total is not null
              then least(b.total, (v_place.n::bigint + 1) * b.size) end
    from windlass.batches b
   where b.tenant = p_tenant and b.run = v_place.batch
     and not exists (select 1 from windlass.shards s
                      where s.tenant = p_tenant and s.batch = v_place.batch and s.n = v_place.n)
  on conflict (tenant, batch, n) do nothing;
  return (
    select json_build_object('batch', v_place.batch, 'n', s.n, 'first', s.first, 'until', s.until, 'succeeded', s.succeeded,
                             'failed', s.failed, 'place', s.place, 'done', s.done,
                             'stopped', b.stopped,
                             'input', (select r.input from windlass.runs r
                                        where r.tenant = p_tenant and r.id = v_place.batch limit 1))
      from windlass.shards s
      join lateral (select b.stopped from windlass.batches b
                     where b.tenant = s.tenant and b.run = s.batch) b on true
     where s.tenant = p_tenant and s.batch = v_place.batch and s.n = v_place.n);
end
$$;
