-- Give the units of a shard from p_at to p_until, its end, to a new one, under the token of its lease. p_run: the
-- new shard's run, as for windlass.enqueue_many. False: it ends elsewhere, is past that unit, the batch is
-- paused, or it has as many shards at work as it may. Null: the lease, or its place, is lost.
--
-- Whoever starts children of that step, or lets held ones go, has its row locked; so have we, and count
-- in a later statement.
create or replace function windlass.split_shard(
  p_tenant text, p_id uuid, p_token bigint, p_at bigint, p_until bigint, p_run json
) returns boolean
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
  v_new uuid := (p_run ->> 'id')::uuid;
  v_parallel integer;
  v_n integer;
begin
  select * into v_place from windlass.place_of_shard(p_tenant, p_id, p_token);
  if not found then
    return null;
  end if;
  select (s.value ->> 'parallel')::integer into v_parallel from windlass.steps s
   where s.tenant = p_tenant and s.run = v_place.batch and s.generation = 0 and s.path = v_place.path
     and s.state = 'waiting' for update;
  if exists (select 1 from windlass.children c
              where c.tenant = p_tenant and c.id = v_new and c.parent = v_place.batch) then
    return true;
  end if;
  -- Whoever pauses shards has this locked, and we look in a later statement.
  perform 1 from windlass.batches b where b.tenant = p_tenant and b.run = v_place.batch for update;
  if v_parallel is null
     or exists (select 1 from windlass.timers t
                 where t.tenant = p_tenant and t.id = v_place.batch and t.why = 'paused')
     or (select count(*) from windlass.children c
          where c.parent = v_place.batch and c.tenant = p_tenant and c.generation = 0
            and c.path = v_place.path and c.state <> 'ended') >= v_parallel then
    return false;
  end if;
  update windlass.shards s set until = p_at
   where s.tenant = p_tenant and s.batch = v_place.batch and s.n = v_place.n and s.until = p_until
     and p_at < p_until and s.first + s.succeeded + s.failed < p_at;
  if not found then
    return false;
  end if;
  update windlass.batches b set shards = b.shards + 1
   where b.tenant = p_tenant and b.run = v_place.batch and b.shards < 100000
  returning b.shards - 1 into v_n;
  if not found then
    perform windlass.refuse('split_shard', 'batch', 'has as many shards as it may');
  end if;
  -- In a file the new one begins where this one is, and skips what is not its own.
  insert into windlass.shards (tenant, batch, n, first, until, place)
  select p_tenant, v_place.batch, v_n, p_at, p_until, s.place from windlass.shards s
   where s.tenant = p_tenant and s.batch = v_place.batch and s.n = v_place.n;
  perform windlass.enqueue_many(json_build_array(p_run), false);
  insert into windlass.children (tenant, id, parent, root, path, n, state)
  values (p_tenant, v_new, v_place.batch, v_place.root, v_place.path, v_n, 'live');
  update windlass.runs r set links = 1 where r.tenant = p_tenant and r.id = v_new;
  perform pg_notify('windlass', '');
  return true;
end
$$;
