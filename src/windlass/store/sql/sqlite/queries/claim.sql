-- Claim: the head of a queue becomes leases. One writer at a time, so no SKIP LOCKED. The move
-- itself is in at_once.sql; here is what is asked before it, and without the lock.

-- name: ready_queues
-- The queues that have something ready: one probe of the index each, however long they are.
with recursive found (queue) as (
  select min(queue) from ready
  union all
  select (select min(r.queue) from ready r where r.queue > found.queue)
    from found where found.queue is not null
)
select queue from found where queue is not null

-- name: claimable
-- Whether the head of a queue has anything for a worker, as the claim would look at it.
select 1
  from (select r.tenant, r.job, r.expires_at, r.deadline_at
          from ready r
         where r.queue = :queue and (r.rank, r.ready_at, r.id) > (:rank, :ready_at, :id)
         order by r.rank, r.ready_at, r.id, r.tenant
         limit :window) w
 where w.job in (select value from json_each(:jobs))
   and (w.expires_at is null or w.expires_at > :now)
   and (w.deadline_at is null or w.deadline_at > :now)
   and (not exists (select 1 from pauses) or not exists (
         select 1 from pauses p where p.tenant = w.tenant
            and ((p.kind = 'queue' and p.name = :queue) or (p.kind = 'job' and p.name = w.job))))
   and not exists (select 1 from still_work where kind = 'queue' and name = :queue)
 limit 1

-- name: window_end
-- The last key of a window from a key on; nothing where the queue is shorter, or nothing of it may be
-- started now.
select r.rank, r.ready_at, r.id
  from ready r
 where r.queue = :queue and (r.rank, r.ready_at, r.id) > (:rank, :ready_at, :id)
   and not exists (select 1 from still_work where kind = 'queue' and name = :queue)
   and exists (select 1 from json_each(:jobs)
                where value not in (select name from still_work where kind = 'job'))
 order by r.rank, r.ready_at, r.id, r.tenant
 limit 1 offset :window - 1

-- name: claim_id
-- One run by its name, for a worker that was told of it by a message.
select r.tenant, r.id, r.job, r.queue, r.token + 1, r.attempt + 1, r.failures, r.crash_count,
       n.input, n.options, n.trace, r.rank, r.ready_at, n.schedule, n.slot,
       r.deadline_at, n.tags, n.key, n.metadata, n.enqueued_by,
       nullif(n.scheduled_for, r.ready_at), nullif(n.links & 1, 0)
  from ready r cross join runs n on n.tenant = r.tenant and n.id = r.id
 where r.tenant = :tenant and r.id = :id
   and (r.expires_at is null or r.expires_at > :now)
   and (r.deadline_at is null or r.deadline_at > :now)
   and not exists (select 1 from pauses p where p.tenant = r.tenant
                      and ((p.kind = 'queue' and p.name = r.queue)
                           or (p.kind = 'job' and p.name = r.job)))

-- name: alive_worker
select 1 from workers where id = :worker and alive_until > :now
