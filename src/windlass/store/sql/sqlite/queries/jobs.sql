-- Jobs: definitions, so that other processes can enqueue by name.

-- name: sync_job
insert into jobs (tenant, name, queue, priority, max_attempts, timeout, retry, parameters,
                  default_input, defaults, on_failure, phases, retention, version, created_at,
                  updated_at)
values (:tenant, :name, :queue, :priority, :max_attempts, :timeout, :retry, :parameters,
        :default_input, :defaults, :on_failure, :phases, :retention, :version, :now, :now)
on conflict (tenant, name) do update
  set queue = excluded.queue, priority = excluded.priority,
      max_attempts = excluded.max_attempts, timeout = excluded.timeout,
      retry = excluded.retry, parameters = excluded.parameters,
      default_input = excluded.default_input, defaults = excluded.defaults,
      on_failure = excluded.on_failure, phases = excluded.phases,
      retention = excluded.retention, version = excluded.version,
      updated_at = excluded.updated_at
  where (jobs.queue, jobs.priority, jobs.max_attempts, jobs.timeout, jobs.retry,
         jobs.parameters, jobs.default_input, jobs.defaults, jobs.on_failure, jobs.phases,
         jobs.retention, jobs.version)
        is not (excluded.queue, excluded.priority, excluded.max_attempts, excluded.timeout,
                excluded.retry, excluded.parameters, excluded.default_input, excluded.defaults,
                excluded.on_failure, excluded.phases, excluded.retention, excluded.version)

-- name: get_job
select tenant, name, queue, priority, max_attempts, timeout, retry, parameters, default_input,
       defaults, on_failure, phases, retention, version, created_at, updated_at
  from jobs where tenant = :tenant and name = :name

-- name: list_jobs
select tenant, name, queue, priority, max_attempts, timeout, retry, parameters, default_input,
       defaults, on_failure, phases, retention, version, created_at, updated_at
  from jobs where tenant = :tenant order by name

-- name: serve_jobs
update workers set jobs = :jobs where id = :worker

-- name: failure_handler
-- Who handles the failure of this run, and what it is told. Nobody, if the run handles one itself.
select j.on_failure, r.input, r.tags, r.key, r.trace, r.metadata, r.created_at
  from jobs j
  join runs r on r.tenant = j.tenant and r.id = :id
 where j.tenant = :tenant and j.name = :job and j.on_failure is not null
   and case when json_valid(r.options) then r.options ->> 'on_failure' end is null

-- name: last_error
select error from attempt_rows
 where tenant = :tenant and run = :id and error is not null order by attempt desc limit 1
