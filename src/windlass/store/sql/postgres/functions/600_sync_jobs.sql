-- Store job definitions, so that other processes and languages can enqueue by name. Rows that
-- say what is stored already are neither rewritten nor locked: a worker that starts waits for nobody
-- who has one of them. A worker that is named runs these from now on.
create or replace function windlass.sync_jobs(p_jobs json, p_worker text default null)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_now timestamptz := windlass.now();
begin
  perform windlass.check_jobs(p_jobs);
  insert into windlass.jobs as j (tenant, name, queue, priority, max_attempts, timeout, retry,
                                  parameters, default_input, defaults, on_failure, phases,
                                  retention, version, created_at, updated_at)
  select n.tenant, n.name, n.queue, n.priority, n.max_attempts, n.timeout, n.retry, n.parameters,
         n.default_input, n.defaults, n.on_failure, n.phases, n.retention, n.version, v_now, v_now
    from (select coalesce(x.tenant, 'default') as tenant, x.name, x.queue,
                 coalesce(x.priority, 0) as priority, coalesce(x.max_attempts, 5) as max_attempts,
                 x.timeout, coalesce(x.retry, '{}') as retry, x.parameters, x.default_input,
                 x.defaults, x.on_failure, x.phases, x.retention, x.version
            from json_to_recordset(p_jobs)
                 as x(tenant text, name text, queue text, priority integer, max_attempts integer,
                      timeout double precision, retry json, parameters json, default_input json,
                      defaults json, on_failure json, phases json, retention json,
                      version text)) n
   -- An upsert locks the row that it finds, even where it does not change it.
   where not exists (
     select 1 from windlass.jobs j
      where j.tenant = n.tenant and j.name = n.name
        and (j.queue, j.priority, j.max_attempts, j.timeout, j.retry::text, j.parameters::text,
             j.default_input::text, j.defaults::text, j.on_failure::text, j.phases::text,
             j.retention::text, j.version)
            is not distinct from
            (n.queue, n.priority, n.max_attempts, n.timeout, n.retry::text, n.parameters::text,
             n.default_input::text, n.defaults::text, n.on_failure::text, n.phases::text,
             n.retention::text, n.version))
   order by n.tenant, n.name
  on conflict (tenant, name) do update
    set queue = excluded.queue, priority = excluded.priority,
        max_attempts = excluded.max_attempts, timeout = excluded.timeout,
        retry = excluded.retry, parameters = excluded.parameters,
        default_input = excluded.default_input, defaults = excluded.defaults,
        on_failure = excluded.on_failure, phases = excluded.phases,
        retention = excluded.retention, version = excluded.version,
        updated_at = excluded.updated_at
    -- Who was faster may have stored the same.
    where (j.queue, j.priority, j.max_attempts, j.timeout, j.retry::text, j.parameters::text,
           j.default_input::text, j.defaults::text, j.on_failure::text, j.phases::text,
             j.retention::text, j.version)
          is distinct from
          (excluded.queue, excluded.priority, excluded.max_attempts, excluded.timeout,
           excluded.retry::text, excluded.parameters::text, excluded.default_input::text,
           excluded.defaults::text, excluded.on_failure::text, excluded.phases::text,
           excluded.retention::text, excluded.version);
  if p_worker is not null then
    update windlass.workers w
       set jobs = array(select x.name from json_to_recordset(p_jobs) as x(name text))
     where w.id = p_worker;
  end if;
end
$$;
