-- The queues that have something ready, turned by p_turn so that none is always first.
-- One index probe per queue, however long the queues are.
create or replace function windlass.ready_queues(p_turn bigint) returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_queue text;
  v_queues text[] := '{}';
  v_cut integer;
begin
  -- All of them; but only who speaks of the queue may use its index.
  select r.queue into v_queue from windlass.ready r where r.queue >= '' order by r.queue limit 1;
  while found loop
    v_queues := v_queues || v_queue;
    select r.queue into v_queue from windlass.ready r
     where r.queue > v_queue order by r.queue limit 1;
  end loop;
  if cardinality(v_queues) < 2 then
    return v_queues;
  end if;
  v_cut := p_turn % cardinality(v_queues);
  return v_queues[v_cut + 1:] || v_queues[:v_cut];
end
$$;
