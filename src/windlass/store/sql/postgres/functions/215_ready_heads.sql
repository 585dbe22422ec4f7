-- The queues that have something ready, each with the rank and time of its first row, turned by
-- p_turn so that none is always first. One index probe per queue, however long the queues are; but a
-- probe steps over the index entries of rows that are gone and not yet vacuumed.
create or replace function windlass.ready_heads(p_turn bigint)
returns table (queue text, rank integer, ready_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_head record;
  v_queues text[] := '{}';
  v_ranks integer[] := '{}';
  v_times timestamptz[] := '{}';
  v_count integer;
begin
  -- All of them; but only who speaks of the queue may use its index.
  select r.queue, r.rank, r.ready_at into v_head from windlass.ready r
   where r.queue >= '' order by r.queue, r.rank, r.ready_at limit 1;
  while found loop
    v_queues := v_queues || v_head.queue;
    v_ranks := v_ranks || v_head.rank;
    v_times := v_times || v_head.ready_at;
    select r.queue, r.rank, r.ready_at into v_head from windlass.ready r
     where r.queue > v_head.queue order by r.queue, r.rank, r.ready_at limit 1;
  end loop;
  v_count := cardinality(v_queues);
  for n in 0 .. v_count - 1 loop
    queue := v_queues[(p_turn + n) % v_count + 1];
    rank := v_ranks[(p_turn + n) % v_count + 1];
    ready_at := v_times[(p_turn + n) % v_count + 1];
    return next;
  end loop;
end
$$;
