-- The number of a worker that is registered and alive; it stays so until this transaction ends. Zero:
-- it is dead, or unknown. Null: somebody has its row locked, perhaps a reaper that is about to find it
-- dead. Nothing is known then.
create or replace function windlass.hold_worker(p_worker text, p_now timestamptz)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_worker_no integer;
begin
  select w.worker_no into v_worker_no from windlass.workers w
    where w.id = p_worker and w.alive_until > p_now for key share skip locked;
  if found then
    return v_worker_no;
  end if;
  return case when exists (select 1 from windlass.workers w
                            where w.id = p_worker and w.alive_until > p_now)
              then null else 0 end;
end
$$;
