-- Finish: the ends of attempts and of runs. The leases were read in this transaction and their
-- tokens compared; with one writer at a time the comparison still holds here.

-- name: end_run
update runs
   set status = :status, failure = :failure, error = :error, reason = :reason,
       result = :result, attempt = :attempt, failures = :failures, crash_count = :crash_count,
       token = :token, seq = :seq, started_at = :started_at, finished_at = :finished_at
 where tenant = :tenant and id = :id

-- name: insert_attempt
insert into attempts (tenant, run, attempt, token, worker, outcome, started_at, finished_at,
                      error, version)
values (:tenant, :run, :attempt, :token, :worker, :outcome, :started_at, :finished_at, :error,
        :version)

-- name: insert_failure
insert into failures (tenant, id, job, queue, status, failure, error_type, fingerprint, at)
values (:tenant, :id, :job, :queue, :status, :failure, :error_type, :fingerprint, :at)

-- name: succeed_runs
-- What succeeded, by the leases themselves: one statement for all, rows copied within SQLite.
update runs
   set status = 'succeeded', attempt = l.attempt, failures = l.failures,
       crash_count = l.crash_count, token = l.token, seq = l.seq + 1,
       started_at = l.started_at, finished_at = :now
  from leases l
 where runs.tenant = :tenant and runs.id in (select unhex(value) from json_each(:ids))
   and l.tenant = runs.tenant and l.id = runs.id

-- name: succeed_attempts
insert into attempts (tenant, run, attempt, token, worker, outcome, started_at, finished_at)
select l.tenant, l.id, l.attempt, l.token, l.worker, 'succeeded', l.started_at, :now
  from json_each(:ids) i cross join leases l on l.tenant = :tenant and l.id = unhex(i.value)

-- name: succeed_events
insert into events (tenant, subject, seq, type, at, attempt)
select l.tenant, l.id, l.seq + 1, 'run.succeeded', :now, l.attempt
  from json_each(:ids) i cross join leases l on l.tenant = :tenant and l.id = unhex(i.value)

-- name: delete_leases
delete from leases
 where tenant = :tenant and id in (select unhex(value) from json_each(:ids))

-- name: put_result
update runs set result = :result where tenant = :tenant and id = :id

-- name: succeed_runs_range
-- The same where all leases from the first to the last succeeded, as after a claim whose runs
-- were quick: a scan instead of a lookup each.
update runs
   set status = 'succeeded', attempt = l.attempt, failures = l.failures,
       crash_count = l.crash_count, token = l.token, seq = l.seq + 1,
       started_at = l.started_at, finished_at = :now
  from leases l
 where runs.tenant = :tenant
   and runs.id in (select id from leases where tenant = :tenant and id between :first and :last)
   and l.tenant = runs.tenant and l.id = runs.id

-- name: succeed_attempts_range
insert into attempts (tenant, run, attempt, token, worker, outcome, started_at, finished_at)
select tenant, id, attempt, token, worker, 'succeeded', started_at, :now
  from leases where tenant = :tenant and id between :first and :last

-- name: succeed_events_range
insert into events (tenant, subject, seq, type, at, attempt)
select tenant, id, seq + 1, 'run.succeeded', :now, attempt
  from leases where tenant = :tenant and id between :first and :last

-- name: delete_leases_range
delete from leases where tenant = :tenant and id between :first and :last
