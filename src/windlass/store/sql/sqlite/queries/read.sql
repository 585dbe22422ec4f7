-- Reads. The status of one run is told by whichever position row exists; lists never filter
-- that: they walk one table backwards by id, and then read the records of the page. A row that a
-- damaged file cannot give must not just be missing from a page: where no time is asked for none is
-- compared, and records are joined from the left, so that whoever reads the page finds it short.

-- name: get_runs
-- Records by id, newest first; also of one run, in one statement, with its latest hundred attempts,
-- the last one first: a run that snoozes every minute has ten thousand after a week. Its last event
-- has the greatest seq; if there is no row of it, the record or the lease has its time.
select r.tenant, r.id, r.job, r.queue,
       case when r.status is not null then r.status
            when l.id is not null then 'running'
            when q.id is not null then 'queued'
            when t.id is not null then 'scheduled' end,
       r.priority,
       coalesce(r.attempt, l.attempt, q.attempt, t.attempt),
       coalesce(r.failures, l.failures, q.failures, t.failures),
       coalesce(r.crash_count, l.crash_count, q.crash_count, t.crash_count),
       coalesce(r.token, l.token, q.token, t.token),
       r.created_at, r.scheduled_for,
       coalesce((select e.at from event_rows e
                  where e.tenant = r.tenant and e.subject = r.id
                    and e.seq = coalesce(r.seq, l.seq, q.seq, t.seq)),
                r.finished_at, l.started_at, r.created_at),
       r.input, r.key, r.tags, r.options, r.trace, r.result, r.error, r.failure,
       l.intent, coalesce(r.reason, l.reason), t.why, t.due_at, r.expires_at, r.deadline_at,
       l.started_at, r.started_at, r.finished_at, r.stale_at, f.discarded_at,
       (select n.name from worker_names n where n.worker_no = l.worker_no),
       p.fraction, p.message, r.schedule, r.slot,
       (select json_group_array(json_array(latest.attempt, latest.token, latest.worker,
                                           latest.outcome, latest.started_at, latest.finished_at,
                                           latest.error, latest.version))
          from (select * from attempts a where a.tenant = r.tenant and a.run = r.id
                 order by a.attempt desc limit 100) latest)
  from json_each(:ids) i
 cross join runs r on r.tenant = :tenant and r.id = unhex(i.value)
  left join leases l on l.tenant = r.tenant and l.id = r.id
  left join ready q on q.tenant = r.tenant and q.id = r.id
  left join timers t on t.tenant = r.tenant and t.id = r.id
  left join failures f on f.tenant = r.tenant and f.id = r.id
  left join progress p on p.tenant = r.tenant and p.id = r.id
 order by r.id desc

-- name: has_ended
select status is not null from runs where tenant = :tenant and id = :id

-- name: list_all
select hex(r.id) from runs r
 where r.tenant = :tenant and r.id < :below and r.id >= :above
   and (:queue is null or r.queue = :queue)
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by r.id desc limit :limit

-- name: list_of_job
select hex(r.id) from runs r indexed by runs_by_job
 where r.tenant = :tenant and r.job = :job and r.id < :below and r.id >= :above
   and (:queue is null or r.queue = :queue)
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by r.id desc limit :limit

-- name: list_succeeded
select hex(r.id) from runs r
 where r.tenant = :tenant and r.id < :below and r.id >= :above
   and r.status = 'succeeded'
   and (:queue is null or r.queue = :queue)
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by r.id desc limit :limit

-- name: list_succeeded_of_job
select hex(r.id) from runs r indexed by runs_by_job
 where r.tenant = :tenant and r.job = :job and r.id < :below and r.id >= :above
   and r.status = 'succeeded'
   and (:queue is null or r.queue = :queue)
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by r.id desc limit :limit

-- name: list_scheduled
select hex(p.id) from timers p left join runs r on r.tenant = p.tenant and r.id = p.id
 where p.tenant = :tenant and p.id < :below and p.id >= :above
   and (:job is null or p.job = :job) and (:queue is null or p.queue = :queue)
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by p.id desc limit :limit

-- name: list_queued
select hex(p.id) from ready p left join runs r on r.tenant = p.tenant and r.id = p.id
 where p.tenant = :tenant and p.id < :below and p.id >= :above
   and (:job is null or p.job = :job) and (:queue is null or p.queue = :queue)
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by p.id desc limit :limit

-- name: list_running
select hex(p.id) from leases p left join runs r on r.tenant = p.tenant and r.id = p.id
 where p.tenant = :tenant and p.id < :below and p.id >= :above
   and (:job is null or p.job = :job) and (:queue is null or p.queue = :queue)
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by p.id desc limit :limit

-- name: list_failures
-- Failed or canceled runs; dead letters are the failed ones that nobody has discarded.
select hex(p.id) from failures p indexed by failures_by_status
  left join runs r on r.tenant = p.tenant and r.id = p.id
 where p.tenant = :tenant and p.status = :status and p.id < :below and p.id >= :above
   and (:job is null or p.job = :job) and (:queue is null or p.queue = :queue)
   and (:failure is null or p.failure = :failure)
   and (not :dead or p.discarded_at is null)
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by p.id desc limit :limit

-- name: list_tagged
-- A tag together with any other filter: its runs are few enough to be looked at one by one.
select hex(g.id)
  from run_tags g left join runs r on r.tenant = g.tenant and r.id = g.id
  left join failures f on f.tenant = g.tenant and f.id = g.id
 where g.tenant = :tenant and g.tag = :tag and g.id < :below and g.id >= :above
   and (:job is null or r.job = :job) and (:queue is null or r.queue = :queue)
   and (:failure is null or r.failure = :failure)
   and (not :dead or (f.status = 'failed' and f.discarded_at is null))
   and (:status is null or :status = coalesce(r.status,
        (select 'running' from leases l where l.tenant = g.tenant and l.id = g.id),
        (select 'queued' from ready q where q.tenant = g.tenant and q.id = g.id),
        'scheduled'))
   and (:created_from is null or r.created_at >= :created_from)
   and (:created_to is null or r.created_at < :created_to)
 order by g.id desc limit :limit

-- name: backlog
-- Each count stops at :most of its own, so that the answer costs the same whatever the backlog,
-- and none is hidden by another. What is due counts as ready: a dispatcher moves it any moment now.
select ready.n + due.n, leases.n, backoff.n, scheduled.n, ready.oldest
  from (select count(*) as n, min(ready_at) as oldest
          from (select p.ready_at from ready p
                 where (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                 limit :most)) ready,
       (select count(*) as n
          from (select 1 from leases p
                 where (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                 limit :most)) leases,
       (select count(*) as n
          from (select 1 from timers p
                 where p.why = 'backoff'
                   and (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                 limit :most)) backoff,
       (select count(*) as n
          from (select 1 from timers p
                 where p.why <> 'backoff' and p.due_at <= :now
                   and (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                 limit :most)) due,
       (select count(*) as n
          from (select 1 from timers p
                 where p.why <> 'backoff' and p.due_at > :now
                   and (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                 limit :most)) scheduled
