-- The last key of a window of p_window rows of a queue, from a key on; the end of all keys
-- where there is no window, or the queue is shorter.
create or replace function windlass.window_end(
  p_queue text, p_rank integer, p_ready_at timestamptz, p_id uuid, p_window integer,
  out rank integer, out ready_at timestamptz, out id uuid
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
begin
  if p_window is not null then
    select r.rank, r.ready_at, r.id into rank, ready_at, id
      from windlass.ready r
     where r.queue = p_queue and (r.rank, r.ready_at, r.id) > (p_rank, p_ready_at, p_id)
     order by r.rank, r.ready_at, r.id
    offset greatest(p_window, 1) - 1 limit 1;
    if found then
      return;
    end if;
  end if;
  rank := 2147483647;
  ready_at := 'infinity';
  id := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
end
$$;
