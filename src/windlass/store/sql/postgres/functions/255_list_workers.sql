-- All workers known, dead ones not yet reaped included, the oldest first.
create or replace function windlass.list_workers() returns setof windlass.workers
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return query select w.* from windlass.workers w order by w.started_at, w.id;
end
$$;
