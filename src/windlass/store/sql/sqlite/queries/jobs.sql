-- Jobs: definitions, so that other processes can enqueue by name.

-- name: sync_job
insert into jobs (tenant, name, queue, priority, max_attempts, timeout, retry, parameters,
                  default_input, version, created_at, updated_at)
values (:tenant, :name, :queue, :priority, :max_attempts, :timeout, :retry, :parameters,
        :default_input, :version, :now, :now)
on conflict (tenant, name) do update
  set queue = excluded.queue, priority = excluded.priority,
      max_attempts = excluded.max_attempts, timeout = excluded.timeout,
      retry = excluded.retry, parameters = excluded.parameters,
      default_input = excluded.default_input, version = excluded.version,
      updated_at = excluded.updated_at
  where (jobs.queue, jobs.priority, jobs.max_attempts, jobs.timeout, jobs.retry,
         jobs.parameters, jobs.default_input, jobs.version)
        is not (excluded.queue, excluded.priority, excluded.max_attempts, excluded.timeout,
                excluded.retry, excluded.parameters, excluded.default_input, excluded.version)

-- name: get_job
select tenant, name, queue, priority, max_attempts, timeout, retry, parameters, default_input,
       version, created_at, updated_at
  from jobs where tenant = :tenant and name = :name

-- name: list_jobs
select tenant, name, queue, priority, max_attempts, timeout, retry, parameters, default_input,
       version, created_at, updated_at
  from jobs where tenant = :tenant order by name

-- name: serve_jobs
update workers set jobs = :jobs where id = :worker
