-- Claim: the head of a queue becomes leases. One writer at a time, so no SKIP LOCKED: the rows
-- that claim_heads returned are still there, and the three statements after it move exactly
-- them, as one range of the claim order under the same conditions.

-- name: ready_queues
-- The queues that have something ready: one probe of the index each, however long they are.
with recursive found (queue) as (
  select min(queue) from ready
  union all
  select (select min(r.queue) from ready r where r.queue > found.queue)
    from found where found.queue is not null
)
select queue from found where queue is not null

-- name: claim_heads
-- The window is a subquery with a limit: rows are looked at in claim order, no more of them
-- than the window, and the outer limit stops it as soon as enough are found.
select w.tenant, w.id, w.job, w.queue, w.token + 1, w.attempt + 1, w.failures, w.crash_count,
       n.input, n.options, n.trace, w.rank, w.ready_at, n.schedule, n.slot,
       w.deadline_at
  from (select r.tenant, r.id, r.job, r.queue, r.rank, r.ready_at, r.attempt, r.failures,
               r.crash_count, r.token, r.expires_at, r.deadline_at
          from ready r
         where r.queue = :queue and (r.rank, r.ready_at, r.id) > (:rank, :ready_at, :id)
         order by r.rank, r.ready_at, r.id, r.tenant
         limit :window) w
 cross join runs n on n.tenant = w.tenant and n.id = w.id
 where w.job in (select value from json_each(:jobs))
   and (w.expires_at is null or w.expires_at > :now)
   and (w.deadline_at is null or w.deadline_at > :now)
 limit :limit

-- name: window_end
-- The last key of a window from a key on; nothing where the queue is shorter.
select r.rank, r.ready_at, r.id
  from ready r
 where r.queue = :queue and (r.rank, r.ready_at, r.id) > (:rank, :ready_at, :id)
 order by r.rank, r.ready_at, r.id, r.tenant
 limit 1 offset :window - 1

-- name: lease_range
insert into leases (tenant, id, job, queue, rank, worker, claim_no, started_at,
                    attempt, failures, crash_count, token, seq, deadline_at)
select r.tenant, r.id, r.job, r.queue, r.rank, :worker, :claim_no, :now,
       r.attempt + 1, r.failures, r.crash_count, r.token + 1, r.seq + 1, r.deadline_at
  from ready r
 where r.queue = :queue
   and (r.rank, r.ready_at, r.id, r.tenant) >= (:rank, :ready_at, :id, :tenant)
   and (r.rank, r.ready_at, r.id, r.tenant)
       <= (:last_rank, :last_ready_at, :last_id, :last_tenant)
   and r.job in (select value from json_each(:jobs))
   and (r.expires_at is null or r.expires_at > :now)
   and (r.deadline_at is null or r.deadline_at > :now)

-- name: start_range
insert into events (tenant, subject, seq, type, at, attempt)
select r.tenant, r.id, r.seq + 1, 'run.started', :now, r.attempt + 1
  from ready r
 where r.queue = :queue
   and (r.rank, r.ready_at, r.id, r.tenant) >= (:rank, :ready_at, :id, :tenant)
   and (r.rank, r.ready_at, r.id, r.tenant)
       <= (:last_rank, :last_ready_at, :last_id, :last_tenant)
   and r.job in (select value from json_each(:jobs))
   and (r.expires_at is null or r.expires_at > :now)
   and (r.deadline_at is null or r.deadline_at > :now)

-- name: unready_range
delete from ready as r
 where r.queue = :queue
   and (r.rank, r.ready_at, r.id, r.tenant) >= (:rank, :ready_at, :id, :tenant)
   and (r.rank, r.ready_at, r.id, r.tenant)
       <= (:last_rank, :last_ready_at, :last_id, :last_tenant)
   and r.job in (select value from json_each(:jobs))
   and (r.expires_at is null or r.expires_at > :now)
   and (r.deadline_at is null or r.deadline_at > :now)

-- name: claim_id
-- One run by its name, for a worker that was told of it by a message.
select r.tenant, r.id, r.job, r.queue, r.token + 1, r.attempt + 1, r.failures, r.crash_count,
       n.input, n.options, n.trace, r.rank, r.ready_at, n.schedule, n.slot,
       r.deadline_at
  from ready r cross join runs n on n.tenant = r.tenant and n.id = r.id
 where r.tenant = :tenant and r.id = :id
   and (r.expires_at is null or r.expires_at > :now)
   and (r.deadline_at is null or r.deadline_at > :now)

-- name: alive_worker
select 1 from workers where id = :worker and alive_until > :now
