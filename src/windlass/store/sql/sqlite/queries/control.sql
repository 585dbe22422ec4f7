-- Control: what an operator asks of a run.

-- name: run_state
select status, stale_at, job, queue, -priority, attempt, token, seq, options, schedule, slot, key,
       input
  from runs
 where tenant = :tenant and id = :id

-- name: request_cancel
-- The first request stands; a later one may still give the reason. That of a pause is another.
update leases
   set intent = 'cancel',
       reason = coalesce(case intent when 'cancel' then reason end, :reason), seq = :seq
 where tenant = :tenant and id = :id

-- name: put_intent
update leases
   set intent = :intent, reason = :reason, seq = seq + 1
 where tenant = :tenant and id = :id

-- name: keep_success
-- What the record of a success says, before it is reopened and says it no more.
insert into attempt_rows (tenant, run, attempt, token, worker, outcome, started_seq, ended_seq,
                          started_at, finished_at, version)
select r.tenant, r.id, r.attempt, r.token,
       (select name from worker_names w where w.worker_no = r.worker_no), r.status, r.started_seq,
       r.seq, r.started_at, r.finished_at, r.attempt_version
  from runs r
 where r.tenant = :tenant and r.id = :id and r.status = 'succeeded'

-- name: reopen_run
update runs
   set status = null, failure = null, result = null, error = null, reason = null,
       attempt = null, failures = null, crash_count = null, token = null, seq = null,
       started_seq = null, started_at = null, finished_at = null, worker_no = null,
       attempt_version = null, stale_at = null, expires_at = null, deadline_at = null,
       options = :options
 where tenant = :tenant and id = :id and status is not null

-- name: move_run
update runs set scheduled_for = :due where tenant = :tenant and id = :id

-- name: place_run
update runs set queue = :queue, priority = :priority where tenant = :tenant and id = :id

-- name: get_input
select input from runs where tenant = :tenant and id = :id

-- name: change_input
update runs set input = :input where tenant = :tenant and id = :id

-- name: change_tags
update runs set tags = :tags where tenant = :tenant and id = :id

-- name: delete_tag
delete from run_tags where tenant = :tenant and tag = :tag and id = :id

-- name: change_options
update runs set options = :options where tenant = :tenant and id = :id

-- name: change_expires_at
update runs set expires_at = :at where tenant = :tenant and id = :id

-- name: change_deadline_at
update runs set deadline_at = :at where tenant = :tenant and id = :id

-- name: delete_failure
delete from failures where tenant = :tenant and id = :id

-- name: discard_failure
update failures set discarded_at = :now
 where tenant = :tenant and id = :id and status = 'failed' and discarded_at is null

-- name: discard_seq
-- After the end of a run, its next seq is taken on the record.
update runs set seq = seq + 1 where tenant = :tenant and id = :id
returning seq, attempt

-- name: put_progress
insert into progress (tenant, id, fraction, message, detail, at)
values (:tenant, :id, :fraction, :message, :detail, :now)
on conflict (tenant, id) do update
  set fraction = excluded.fraction, message = excluded.message, detail = excluded.detail,
      at = excluded.at

-- name: lease_token
select token from leases where tenant = :tenant and id = :id

-- name: revive_live
-- A run of a schedule lives again: overlap is judged by that, while there is the schedule.
insert into schedule_live (tenant, schedule, slot, run)
select s.tenant, s.id, :slot, :run from schedules s where s.tenant = :tenant and s.id = :schedule
on conflict do nothing
