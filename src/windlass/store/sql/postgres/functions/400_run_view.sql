-- One run as a user sees it: its record, its position, its latest hundred attempts, in one row. A
-- run that snoozes every minute has ten thousand after a week. Meant for reading by (tenant, id); a
-- listing finds its ids elsewhere first and never filters this.
create or replace view windlass.run_view with (security_invoker = true) as
select r.tenant, r.id, r.job, r.queue,
       coalesce(r.status,
                case when q.id is not null then 'queued'
                     when l.id is not null then 'running'
                     -- As windlass.timer_status: a view cannot call what a release may replace.
                     when t.why = 'wait' then 'waiting'
                     when t.why = 'paused' then 'paused'
                     else 'scheduled' end) as status,
       r.priority,
       coalesce(r.attempt, l.attempt, q.attempt, t.attempt, 0) as attempt,
       coalesce(r.failures, l.failures, q.failures, t.failures, 0) as failures,
       coalesce(r.crash_count, l.crash_count, q.crash_count, t.crash_count, 0) as crash_count,
       coalesce(r.token, l.token, q.token, t.token, 0) as token,
       r.created_at, r.scheduled_for,
       -- Its last event has the seq that it carries; if there is no row of it, the record or the lease
       -- has its time.
       coalesce((select e.at from windlass.event_rows e
                  where e.tenant = r.tenant and e.subject = r.id
                    and e.seq = coalesce(r.seq, l.seq, q.seq, t.seq)),
                r.finished_at, l.started_at, r.created_at) as updated_at,
       r.input, r.key, coalesce(r.tags, '{}') as tags, r.options, r.trace,
       r.result, r.error, r.failure,
       l.intent, coalesce(r.reason, l.reason) as reason,
       t.why as waiting_for, nullif(t.due_at, 'infinity') as due_at,
       r.expires_at,
       coalesce(r.started_at, l.started_at, a.started_at) as started_at,
       r.finished_at, r.stale_at, f.discarded_at,
       coalesce((select n.name from windlass.worker_names n where n.worker_no = l.worker_no),
                'worker ' || l.worker_no, a.worker) as worker,
       p.fraction as progress, p.message as progress_message,
       coalesce(a.attempts, '[]') as attempts,
       r.schedule, r.slot, r.deadline_at, r.metadata, r.enqueued_by, coalesce(t.waits, '{}') as waits,
       k.parent, k.root, p.detail as progress_detail, p.at as progress_at
  from windlass.runs r
  left join windlass.ready q on q.tenant = r.tenant and q.id = r.id
  left join windlass.leases l on l.tenant = r.tenant and l.id = r.id
  left join windlass.timers t on t.tenant = r.tenant and t.id = r.id
  left join windlass.failures f on f.tenant = r.tenant and f.id = r.id
  left join windlass.children k on k.tenant = r.tenant and k.id = r.id
  left join windlass.progress p on p.tenant = r.tenant and p.id = r.id
  left join lateral (
    select json_agg(json_build_object(
             'attempt', x.attempt, 'token', x.token, 'worker', x.worker, 'outcome', x.outcome,
             'started_at', x.started_at, 'finished_at', x.finished_at, 'error', x.error,
             'version', x.version)
             order by x.attempt) as attempts,
           (array_agg(x.worker order by x.attempt desc))[1] as worker,
           (array_agg(x.started_at order by x.attempt desc))[1] as started_at
      from (select * from windlass.attempts y
             where y.tenant = r.tenant and y.run = r.id
             order by y.attempt desc limit 100) x) a on true;
