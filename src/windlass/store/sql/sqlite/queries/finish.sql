-- Finish: the ends of attempts and of runs. The leases were read in this transaction and their
-- tokens compared; with one writer at a time the comparison still holds here.

-- name: end_run
update runs
   set status = :status, failure = :failure, error = :error, reason = :reason,
       result = :result, attempt = :attempt, failures = :failures, crash_count = :crash_count,
       token = :token, seq = :seq, started_seq = :started_seq, started_at = :started_at,
       finished_at = :finished_at, worker_no = :worker_no, attempt_version = :version
 where tenant = :tenant and id = :id

-- name: insert_attempt
insert into attempt_rows (tenant, run, attempt, token, worker, outcome, started_seq, ended_seq,
                          started_at, finished_at, error, version)
values (:tenant, :run, :attempt, :token,
        (select name from worker_names where worker_no = :worker_no), :outcome, :started_seq,
        :ended_seq, :started_at, :finished_at, :error, :version)

-- name: insert_failure
insert into failures (tenant, id, job, queue, status, failure, error_type, fingerprint, at)
values (:tenant, :id, :job, :queue, :status, :failure, :error_type, :fingerprint, :at)
