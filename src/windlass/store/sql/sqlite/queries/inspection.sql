-- What operators ask: who works, what waits, what should have ended.

-- name: count_held
select count(*) from leases
 where worker_no = (select worker_no from workers where id = :worker)

-- name: oldest_held
select tenant, id, job, queue, attempt, started_at
  from leases where worker_no = (select worker_no from workers where id = :worker)
 order by started_at, id limit :most

-- name: queue_demand
-- The head of a queue, in claim order, so that a long one costs no more than a short one.
select job, count(*), min(ready_at),
       sum(exists (select 1 from pauses p where p.tenant = h.tenant
                      and ((p.kind = 'queue' and p.name = :queue)
                           or (p.kind = 'job' and p.name = h.job))))
  from (select r.job, r.ready_at, r.tenant from ready r
         where r.queue = :queue order by r.rank, r.ready_at, r.id limit :most) h
 group by job order by 3, 1

-- name: inspect_overdue
-- All leases are read: there are no more of them than seats.
select l.tenant, l.id, l.job,
       (select name from worker_names n where n.worker_no = l.worker_no), l.started_at,
       coalesce(json_extract(r.options, '$.timeout'), j.timeout) as timeout, w.alive_until
  from leases l cross join runs r on r.tenant = l.tenant and r.id = l.id
  left join jobs j on j.tenant = l.tenant and j.name = l.job
  left join workers w on w.worker_no = l.worker_no
 where coalesce(w.alive_until, l.started_at) <= :before
    or l.started_at + coalesce(json_extract(r.options, '$.timeout'), j.timeout) * 1000000 <= :before
 order by l.started_at, l.id limit :most

-- name: count_by_status
-- Dead letters that were discarded are still runs that failed.
select 'queued', count(*) from ready where tenant = :tenant
union all
select 'scheduled', count(*) from timers where tenant = :tenant and why not in ('wait', 'paused')
union all
select 'waiting', count(*) from timers where tenant = :tenant and why = 'wait'
union all
select 'paused', count(*) from timers where tenant = :tenant and why = 'paused'
union all
select 'running', count(*) from leases where tenant = :tenant
union all
select status, count(*) from failures where tenant = :tenant group by status

-- name: count_records
select count(*) from runs where tenant = :tenant

-- name: count_by_queue
-- Through the table and not by tenant: that is the order of the queues, and nothing is looked up.
select queue, 'queued', count(*) from ready not indexed where tenant = :tenant group by queue
union all
select queue, case why when 'wait' then 'waiting' when 'paused' then 'paused' else 'scheduled' end, count(*)
  from timers where tenant = :tenant group by 1, 2
union all
select queue, 'running', count(*) from leases where tenant = :tenant group by queue
union all
select queue, status, count(*) from failures where tenant = :tenant group by queue, status

-- name: count_by_job
-- As above, but sorted by job.
select job, 'queued', count(*) from ready not indexed where tenant = :tenant group by job
union all
select job, case why when 'wait' then 'waiting' when 'paused' then 'paused' else 'scheduled' end, count(*)
  from timers where tenant = :tenant group by 1, 2
union all
select job, 'running', count(*) from leases where tenant = :tenant group by job
union all
select job, status, count(*) from failures where tenant = :tenant group by job, status

-- name: queue_ages
-- One probe for each queue and priority; of each, as many are looked through as are allowed.
with recursive named (queue) as (
  select min(queue) from ready
  union all
  select (select min(r.queue) from ready r where r.queue > named.queue)
    from named where named.queue is not null
), head (queue, rank) as (
  select n.queue, (select min(r.rank) from ready r where r.queue = n.queue) from named n
  union all
  select h.queue, (select min(r.rank) from ready r where r.queue = h.queue and r.rank > h.rank)
    from head h where h.rank is not null
)
select o.queue, min(o.oldest_at)
  from (select queue, rank,
               (select w.ready_at
                  from (select r.tenant, r.ready_at from ready r
                         where r.queue = head.queue and r.rank = head.rank
                         order by r.ready_at limit :most) w
                 where w.tenant = :tenant limit 1) as oldest_at
          from head where rank is not null) o
 where o.oldest_at is not null
 group by o.queue order by o.queue
