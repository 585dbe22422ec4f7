-- Whether a worker is registered and alive; if so it stays so until this transaction ends. Null:
-- somebody has its row locked, perhaps a reaper that is about to find it dead. Nothing is known then.
create or replace function windlass.hold_worker(p_worker text, p_now timestamptz)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform 1 from windlass.workers w
    where w.id = p_worker and w.alive_until > p_now for key share skip locked;
  if found then
    return true;
  end if;
  return case when exists (select 1 from windlass.workers w
                            where w.id = p_worker and w.alive_until > p_now)
              then null else false end;
end
$$;
