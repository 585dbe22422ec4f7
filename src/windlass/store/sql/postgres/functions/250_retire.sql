-- Forget a worker that stops; what it still holds is given back. Returns how many runs.
create or replace function windlass.retire(p_worker text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_worker_no integer;
  v_released integer;
begin
  select w.worker_no into v_worker_no from windlass.workers w where w.id = p_worker for update;
  if not found then
    return 0;
  end if;
  v_released := windlass.give_back(v_worker_no, 9223372036854775807, '{}', '{}', '{}');
  -- A lease that was locked just now is being finished by its holder; should it stay, the
  -- reaper takes it: a lease without a worker row is dead.
  delete from windlass.workers w where w.id = p_worker;
  return v_released;
end
$$;
