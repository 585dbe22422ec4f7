-- Sweep: due timers, passed expiries, dead workers. Differs from PostgreSQL in that nothing
-- is locked row by row and nothing needs to be skipped.

-- name: due_timers
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, expires_at
  from timers where due_at <= :now order by due_at limit :limit

-- name: next_due
select min(due_at) from timers where due_at > :now

-- name: expired_timers
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, expires_at
  from timers where expires_at <= :now order by expires_at limit :limit

-- name: expired_ready
select tenant, id, job, queue, rank, attempt, failures, crash_count, token, seq, expires_at
  from ready where expires_at <= :now order by expires_at limit :limit

-- name: dead_workers
select id from workers where alive_until <= :now order by alive_until limit :limit

-- name: lost_workers
-- Workers that leases name and that are not there: one probe of the index for each worker with
-- leases.
with recursive holder (worker) as (
  select min(worker) from leases
  union all
  select (select min(l.worker) from leases l where l.worker > holder.worker)
    from holder where holder.worker is not null
)
select h.worker from holder h
 where h.worker is not null
   and not exists (select 1 from workers w where w.id = h.worker)

-- name: unpublished
select tenant, id from ready
 where coalesce(published_at, ready_at) <= :before
 limit :limit

-- name: mark_published
update ready set published_at = :now where tenant = :tenant and id = :id
