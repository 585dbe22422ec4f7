-- What operators ask: who works, what waits, what should have ended.

-- name: count_held
select count(*) from leases where worker = :worker

-- name: oldest_held
select tenant, id, job, queue, attempt, started_at
  from leases where worker = :worker order by started_at, id limit :most

-- name: queue_demand
-- The head of a queue, in claim order, so that a long one costs no more than a short one.
select job, count(*), min(ready_at)
  from (select r.job, r.ready_at from ready r
         where r.queue = :queue order by r.rank, r.ready_at, r.id limit :most) h
 group by job order by 3, 1

-- name: overdue
-- All leases are read: there are no more of them than seats.
select l.tenant, l.id, l.job, l.worker, l.started_at,
       coalesce(json_extract(r.options, '$.timeout'), j.timeout) as timeout, w.alive_until
  from leases l cross join runs r on r.tenant = l.tenant and r.id = l.id
  left join jobs j on j.tenant = l.tenant and j.name = l.job
  left join workers w on w.id = l.worker
 where coalesce(w.alive_until, l.started_at) <= :before
    or l.started_at + coalesce(json_extract(r.options, '$.timeout'), j.timeout) * 1000000 <= :before
 order by l.started_at, l.id limit :most
