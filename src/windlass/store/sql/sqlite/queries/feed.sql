-- The feed: pages in the order in which they were committed.

-- name: feed_sizes
-- The pages from a place on, and how many events each has: there are no more pages than events.
select n, length(subjects) / 16 from pages
 where n >= :n and era = :era
 order by n limit :limit

-- name: feed_page
-- A part of a page, and no more: it may have a hundred thousand events.
select era, n, :seen, tenant, type, at, seq, attempt,
       substr(subjects, 16 * :seen + 1, 16 * :taken), data
  from pages where n = :n

-- name: feed_ends
select coalesce((select min(n) from pages), 0), coalesce((select max(n) from pages), 0)

-- name: feed_latest
select max(at) from (select at from pages where n >= :n order by n limit 50)

-- name: event_facts
-- Of one run or schedule, and one attempt of it: what has not ended has the worker of its lease.
select :id, :attempt, s.job, s.queue,
       coalesce(a.worker, (select w.name from worker_names w where w.worker_no = l.worker_no)),
       coalesce(a.started_at, l.started_at), a.finished_at, a.error
  from (select job, queue from runs where tenant = :tenant and id = :id
         union all
        select job, null from schedules where tenant = :tenant and id = :id
         limit 1) s
  left join attempts a on a.tenant = :tenant and a.run = :id and a.attempt = :attempt
  left join leases l on l.tenant = :tenant and l.id = :id and l.attempt = :attempt
