-- The leases at these places (locked by the caller) are taken from their dead holders.
create or replace function windlass.take_back(
  p_places tid[], p_max_crashes integer,
  out reaped integer, out crashed integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_moves windlass.move[];
begin
  with gone as (
    delete from windlass.leases l where l.ctid = any (p_places)
    returning windlass.move_from_lease(
      l, case when l.crash_count + 1 >= p_max_crashes then 'crash' else 'reap' end) as move
  )
  select array_agg(g.move) into v_moves from gone g;
  select count(*) filter (where m.status in ('queued', 'paused')), count(*) filter (where m.status = 'failed')
    into reaped, crashed
    from windlass.make_moves(v_moves, windlass.now()) as m(status);
end
$$;
