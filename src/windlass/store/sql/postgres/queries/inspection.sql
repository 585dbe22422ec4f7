-- What operators ask: who works, what waits, what should have ended.

-- name: inspect_workers
select windlass.json_text(s)
  from (select w.*, n.now as seen_at, h.busy, coalesce(r.running, '[]') as running
          from windlass.workers w
         cross join (select windlass.now() as now) n
         cross join lateral (select count(*) as busy from windlass.leases l
                              where l.worker = w.id) h
         cross join lateral (select json_agg(row_to_json(x)) as running
                               from (select l.tenant, l.id, l.job, l.queue, l.attempt, l.started_at
                                       from windlass.leases l
                                      where l.worker = w.id
                                      order by l.started_at, l.id limit %s) x) r
         order by w.started_at, w.id) s

-- name: inspect_demand
-- The head of each queue, in claim order, so that a long one costs no more than a short one.
select windlass.json_text(d)
  from (select q.queue, h.job, count(*) as waiting, min(h.ready_at) as oldest_at,
               min(n.now) as seen_at
          from (select windlass.now() as now) n
         cross join windlass.ready_heads(0) q
         cross join lateral (select r.job, r.ready_at from windlass.ready r
                              where r.queue = q.queue
                                and (r.rank, r.ready_at) >= (q.rank, q.ready_at)
                              order by r.rank, r.ready_at, r.id limit %s) h
         group by q.queue, h.job
         order by q.queue, min(h.ready_at), h.job) d

-- name: overdue
-- All leases are read: there are no more of them than seats.
select windlass.json_text(o)
  from (select l.tenant, l.id, l.job, l.worker, l.started_at, t.timeout, w.alive_until,
               n.now as seen_at
          from (select windlass.now() as now) n
         cross join windlass.leases l
          join windlass.runs r on r.tenant = l.tenant and r.id = l.id
          left join windlass.jobs j on j.tenant = l.tenant and j.name = l.job
          left join windlass.workers w on w.id = l.worker
         cross join lateral (
           select coalesce(case when json_typeof(r.options -> 'timeout') = 'number'
                                then (r.options ->> 'timeout')::double precision end,
                           j.timeout) as timeout) t
         cross join lateral (select n.now - make_interval(secs => %s) as before) b
         where coalesce(w.alive_until, l.started_at) <= b.before
            or l.started_at + make_interval(secs => t.timeout) <= b.before
         order by l.started_at, l.id limit %s) o

-- name: count_runs
select windlass.json_text(c) from windlass.count_runs(%s, %s, %s) c

-- name: queue_ages
select windlass.json_text(a) from windlass.queue_ages(%s, %s) a
