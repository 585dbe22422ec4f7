-- Whether a worker is registered and alive; if so it stays so until this transaction ends. A
-- reaper that has found it dead holds its row, and then it is dead.
create or replace function windlass.hold_worker(p_worker text, p_now timestamptz)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform 1 from windlass.workers w
    where w.id = p_worker and w.alive_until > p_now for key share;
  return found;
end
$$;
