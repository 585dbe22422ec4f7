-- Workers: their row says until when they are alive; the deadline of all their leases is there.

-- name: name_worker
-- Gives a worker that is new its number.
insert into worker_names (name)
select :id where not exists (select 1 from workers where id = :id)

-- name: register
-- A worker that is known keeps its number, and so its leases.
insert into workers (id, worker_no, host, pid, version, queues, jobs, seats, started_at, renewed_at,
                     alive_until)
values (:id,
        coalesce((select worker_no from workers where id = :id),
                 (select max(worker_no) from worker_names)),
        :host, :pid, :version, :queues, :jobs, :seats, :now, :now, :alive_until)
on conflict (id) do update
  set renewed_at = excluded.renewed_at, alive_until = excluded.alive_until

-- name: renew_worker
update workers
   set renewed_at = :now, alive_until = :alive_until,
       blocked_since = case when :seconds is not null
                            then coalesce(blocked_since, :now - :seconds) end,
       blocked_tenant = :tenant, blocked_run = :run
 where id = :worker

-- name: delete_worker
delete from workers where id = :worker

-- name: list_workers
select id, host, pid, version, queues, jobs, seats, started_at, renewed_at, alive_until,
       blocked_since, blocked_tenant, blocked_run
  from workers order by started_at, id

-- name: worker_claims
-- What a renewal compares with what the worker says it holds.
select tenant, id, token, claim_no, intent, reason from leases
 where worker_no = (select worker_no from workers where id = :worker)

-- name: worker_leases
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at, null,
       worker_no, started_at, started_seq, intent, reason
  from leases where worker_no = :worker_no limit :limit

-- name: worker_no
select worker_no from workers where id = :worker
