-- Positions: where a live run is. Every move deletes the old row and inserts the new one;
-- the row carries attempt, failures, crash_count, token, seq and deadline, and hands them on. The
-- expiry is over with the first claim: a lease has none, and null is read in its place.

-- name: get_lease
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at, null,
       worker_no, started_at, started_seq, intent, reason
  from leases where tenant = :tenant and id = :id

-- name: get_ready
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at,
       expires_at, null, null, null, null, null, ready_at
  from ready where tenant = :tenant and id = :id

-- name: get_timer
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at,
       expires_at, null, null, null, null, null, due_at, why, waits,
       was_why, was_due_at
  from timers where tenant = :tenant and id = :id

-- name: delete_lease
delete from leases where tenant = :tenant and id = :id

-- name: delete_ready
delete from ready where tenant = :tenant and id = :id

-- name: delete_timer
delete from timers where tenant = :tenant and id = :id

-- name: insert_ready
insert into ready (tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq,
                   deadline_at, expires_at, ready_at)
values (:tenant, :id, :job, :queue, :rank, :attempt, :failures, :crash_count, :token, :seq,
        :deadline_at, :expires_at, :ready_at)

-- name: insert_timer
insert into timers (tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq,
                    deadline_at, expires_at, due_at, why, waits, was_why, was_due_at)
values (:tenant, :id, :job, :queue, :rank, :attempt, :failures, :crash_count, :token, :seq,
        :deadline_at, :expires_at, :due_at, :why, :waits, :was_why, :was_due_at)

-- name: insert_lease
insert into leases (tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq,
                    deadline_at, started_seq, worker_no, claim_no, started_at)
values (:tenant, :id, :job, :queue, :rank, :attempt, :failures, :crash_count, :token, :seq,
        :deadline_at, :started_seq, (select worker_no from workers where id = :worker), :claim_no,
        :started_at)
