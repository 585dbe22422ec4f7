-- Reads. The status of one run is told by whichever position row exists.

-- name: get_runs
-- Records by id, newest first; also of one run, in one statement, with its latest hundred attempts,
-- the last one first: a run that snoozes every minute has ten thousand after a week. Its last event
-- has the greatest seq; if there is no row of it, the record or the lease has its time.
select r.tenant, r.id, r.job, r.queue,
       case when r.status is not null then r.status
            when l.id is not null then 'running'
            when q.id is not null then 'queued'
            when t.why = 'wait' then 'waiting'
            when t.why = 'paused' then 'paused'
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
       r.input, r.key, r.tags, r.options, r.trace, r.metadata, r.enqueued_by, r.result, r.error, r.failure,
       l.intent, coalesce(r.reason, l.reason), t.why, t.waits,
       case when t.due_at < 253402214400000000 then t.due_at end, r.expires_at, r.deadline_at,
       l.started_at, r.started_at, r.finished_at, r.stale_at, f.discarded_at,
       (select n.name from worker_names n where n.worker_no = l.worker_no),
       p.fraction, p.message, p.detail, p.at, r.schedule, r.slot, k.parent, k.root,
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
  left join children k on k.tenant = r.tenant and k.id = r.id
 order by r.id desc

-- name: has_ended
select status is not null from runs where tenant = :tenant and id = :id

-- name: look_for_ends
select r.id, r.status is not null
  from json_each(:ids) i
 cross join runs r on r.tenant = :tenant and r.id = unhex(i.value)

-- name: backlog
-- Each count stops at :most of its own, so that the answer costs the same whatever the backlog,
-- and none is hidden by another. What is due counts as ready, and so does what was woken because a
-- child has ended: a dispatcher moves it any moment now. What is ready, due or retrying in a paused
-- queue, or of a paused job, is counted as paused and as nothing else.
select ready.n + due.n + (select count(*) from (select 1 from wakes where n > 0 limit :most)), leases.n, backoff.n, scheduled.n, ready.oldest,
       (select count(*)
          from (select 1
                  from (select tenant, queue, job from ready
                        union all
                        select tenant, queue, job from timers
                         where why = 'backoff' or due_at <= :now) p
                 where exists (select 1 from pauses)
                   and (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                   and exists (select 1 from pauses h where h.tenant = p.tenant
                                       and ((h.kind = 'queue' and h.name = p.queue)
                                            or (h.kind = 'job' and h.name = p.job)))
                 limit :most))
  from (select count(*) as n, min(ready_at) as oldest
          from (select p.ready_at from ready p
                 where (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                   and not exists (select 1 from pauses h where h.tenant = p.tenant
                                       and ((h.kind = 'queue' and h.name = p.queue)
                                            or (h.kind = 'job' and h.name = p.job)))
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
                   and not exists (select 1 from pauses h where h.tenant = p.tenant
                                       and ((h.kind = 'queue' and h.name = p.queue)
                                            or (h.kind = 'job' and h.name = p.job)))
                 limit :most)) backoff,
       (select count(*) as n
          from (select 1 from timers p
                 where p.why <> 'backoff' and p.due_at <= :now
                   and (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                   and not exists (select 1 from pauses h where h.tenant = p.tenant
                                       and ((h.kind = 'queue' and h.name = p.queue)
                                            or (h.kind = 'job' and h.name = p.job)))
                 limit :most)) due,
       (select count(*) as n
          from (select 1 from timers p
                 where p.why not in ('backoff', 'wait', 'paused') and p.due_at > :now
                   and (:queues is null or p.queue in (select value from json_each(:queues)))
                   and (:jobs is null or p.job in (select value from json_each(:jobs)))
                 limit :most)) scheduled
