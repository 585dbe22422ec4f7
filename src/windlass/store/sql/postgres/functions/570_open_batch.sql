-- The batch that a run is, under the token of its lease; it is made if it is not there. p_anew: what is
-- known of its shards is forgotten; otherwise one that was stopped may go on. p_begins: the bytes at which the
-- shards of a file begin. Returns the batch, or null if
-- the lease is lost.
create or replace function windlass.open_batch(
  p_tenant text, p_id uuid, p_token bigint, p_total bigint, p_size integer, p_shards integer,
  p_anew boolean, p_begins json default '[]'
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
  v_answer json;
begin
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_id and l.token = p_token for update;
  if not found then
    return null;
  end if;
  if p_anew then
    delete from windlass.batches b where b.tenant = p_tenant and b.run = p_id;
    delete from windlass.shards s where s.tenant = p_tenant and s.batch = p_id;
    delete from windlass.unit_failures f where f.tenant = p_tenant and f.batch = p_id;
  end if;
  insert into windlass.batches as b (tenant, run, total, size, shards)
  values (p_tenant, p_id, p_total, p_size, p_shards)
  on conflict (tenant, run) do update set stopped = null, forced = false
  returning json_build_object('total', b.total, 'size', b.size, 'shards', b.shards,
                              'stopped', b.stopped) into v_answer;
  insert into windlass.shards (tenant, batch, n, first, until, place)
  select p_tenant, p_id, x.n - 1, (x.n - 1) * p_size, least(p_total, x.n * p_size),
         json_build_object('unit', (x.n - 1) * p_size, 'offset', x.at::bigint)
    from json_array_elements_text(p_begins) with ordinality as x(at, n)
  on conflict (tenant, batch, n) do nothing;
  return v_answer;
end
$$;
