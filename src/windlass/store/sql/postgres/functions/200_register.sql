-- Make a worker known, alive for p_lease seconds, under a number of its own. Returns the store's now.
create or replace function windlass.register(
  p_worker text, p_lease double precision, p_host text default '', p_pid integer default 0,
  p_version text default '', p_queues text[] default null, p_jobs text[] default '{}',
  p_seats integer default 1
) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_now timestamptz := windlass.now();
  v_until timestamptz := v_now + windlass.check_length('register', 'lease', p_lease);
begin
  update windlass.workers w set renewed_at = v_now, alive_until = v_until where w.id = p_worker;
  if not found then
    with named as (
      insert into windlass.worker_names (name) values (p_worker) returning worker_no
    )
    insert into windlass.workers (id, worker_no, host, pid, version, queues, jobs, seats,
                                  started_at, renewed_at, alive_until)
    select p_worker, n.worker_no, p_host, p_pid, p_version, p_queues, p_jobs, p_seats,
           v_now, v_now, v_until
      from named n
    -- the same call again, at the same time: it keeps the number that it has
    on conflict (id) do update
      set renewed_at = excluded.renewed_at, alive_until = excluded.alive_until;
  end if;
  return v_now;
end
$$;
