-- Sweep: due timers, passed expiries, dead workers. Differs from PostgreSQL in that nothing
-- is locked row by row and nothing needs to be skipped.

-- name: due_timers
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at,
       expires_at, null, null, null, null, null, due_at, why, waits,
       was_why, was_due_at
  from timers where due_at <= :now order by due_at limit :limit

-- name: next_due
-- Not of what waits without a limit of time.
select min(due_at) from timers where due_at > :now and due_at < 253402214400000000

-- name: expired_timers
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at,
       expires_at, null, null, null, null, null, due_at, why, waits,
       was_why, was_due_at
  from timers where expires_at <= :now order by expires_at limit :limit

-- name: expired_ready
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at,
       expires_at
  from ready where expires_at <= :now order by expires_at limit :limit

-- name: overrun_timers
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at,
       expires_at, null, null, null, null, null, due_at, why, waits,
       was_why, was_due_at
  from timers where deadline_at <= :now order by deadline_at limit :limit

-- name: overrun_ready
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, deadline_at,
       expires_at
  from ready where deadline_at <= :now order by deadline_at limit :limit

-- name: overrun_leases
-- Those whose worker has had a whole lease of its own to end them.
select l.tenant, l.id, l.job, l.queue, l.rank, l.attempt, l.failures, l.crash_count, l.token,
       l.seq, l.deadline_at, null, l.worker_no, l.started_at, l.started_seq, l.intent, l.reason
  from leases l
 where l.deadline_at <= :now
   and l.deadline_at + (select w.alive_until - w.renewed_at from workers w
                         where w.worker_no = l.worker_no) <= :now
 order by l.deadline_at limit :limit

-- name: lease_lengths
select coalesce(min(alive_until - renewed_at), 30000000),
       coalesce(max(alive_until - renewed_at), 30000000)
  from workers

-- name: last_sweep
-- A mark in the future was made before the clock was set back, and says nothing.
select max(at) from sweeps where at <= :now + :shortest / 3

-- name: certain_until
-- A store that was never swept has no gap of which this could be told.
select min(gap_from) from sweeps
 where gap_from > 0 and at > :now - :shortest * 2 / 3 and at <= :now + :shortest / 3

-- name: excused_workers
-- A gap between two sweeps was longer than a third of the lease, and since it ended two thirds have
-- not passed. Gaps that are usual for the caller excuse those whose time ran out in them alone.
select w.id from workers w
 where w.alive_until <= :now
   and exists (
         select 1 from sweeps s
          where s.at > :now - (w.alive_until - w.renewed_at) * 2 / 3
            and s.at <= :now + (w.alive_until - w.renewed_at) / 3
            and s.at - s.gap_from > (w.alive_until - w.renewed_at) / 3
            and not (w.alive_until <= s.gap_from and s.at - s.gap_from <= :every * 2))

-- name: dead_workers
select id, worker_no from workers where alive_until <= :now order by alive_until limit :limit

-- name: lost_workers
-- Numbers of workers that leases name and that are not there: one probe of the index for each worker
-- with leases.
with recursive holder (worker_no) as (
  select min(worker_no) from leases
  union all
  select (select min(l.worker_no) from leases l where l.worker_no > holder.worker_no)
    from holder where holder.worker_no is not null
)
select h.worker_no from holder h
 where h.worker_no is not null
   and not exists (select 1 from workers w where w.worker_no = h.worker_no)

-- name: unpublished
select tenant, id from ready
 where coalesce(published_at, ready_at) <= :before
   and not exists (select 1 from pauses p where p.tenant = ready.tenant
                      and ((p.kind = 'queue' and p.name = ready.queue)
                           or (p.kind = 'job' and p.name = ready.job)))
 limit :limit

-- name: mark_published
update ready set published_at = :now where tenant = :tenant and id = :id
