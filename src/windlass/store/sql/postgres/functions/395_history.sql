-- The history of runs and schedules, put together: nothing is stored twice. Meant for reading by
-- (tenant, subject) or (tenant, run): every branch is a lookup by key then.

-- The events. A run that was due at once was enqueued when its record was made; an attempt's start is
-- told by the lease, and later by the attempt; a success, and that it is stale, by the record, or by an attempt if the run was
-- reopened; the end of a step by the step. Everything else has a row.
create or replace view windlass.events with (security_invoker = true) as
select e.tenant, e.subject, e.seq, e.type, e.at, e.attempt, e.data from windlass.event_rows e
 union all
select s.tenant, s.run, s.seq,
       case when s.state = 'done' and s.kind = 'phase' then 'phase.completed'
            when s.state = 'done' then 'step.succeeded' when s.state = 'failed' then 'step.failed'
            else 'step.timed_out' end,
       s.at, s.attempt, json_build_object('step', s.path)
  from windlass.steps s where s.seq is not null
 union all
select r.tenant, r.id, 1, 'run.enqueued', r.created_at, 0, null
  from windlass.runs r
 where (select true from windlass.event_rows e
         where e.tenant = r.tenant and e.subject = r.id and e.seq = 1 limit 1) is null
 union all
select l.tenant, l.id, l.started_seq, 'run.started', l.started_at, l.attempt, null
  from windlass.leases l
 union all
select a.tenant, a.run, a.started_seq, 'run.started', a.started_at, a.attempt, null
  from windlass.attempt_rows a
 union all
select a.tenant, a.run, a.ended_seq, 'run.succeeded', a.finished_at, a.attempt, null
  from windlass.attempt_rows a where a.outcome = 'succeeded'
 union all
select r.tenant, r.id, x.seq, x.type, x.at, r.attempt, null
  from windlass.runs r
 cross join lateral (values (r.started_seq, 'run.started', r.started_at),
                            (r.seq, 'run.succeeded', r.finished_at),
                            (r.seq + 1, 'run.stale', r.stale_at)) as x(seq, type, at)
 where r.status = 'succeeded' and x.at is not null;

-- The ended attempts: the one that succeeded is told by its run's record, unless that was reopened.
create or replace view windlass.attempts with (security_invoker = true) as
select a.tenant, a.run, a.attempt, a.token, a.worker, a.outcome, a.started_at, a.finished_at,
       a.error, a.version
  from windlass.attempt_rows a
 union all
select r.tenant, r.id, r.attempt, r.token,
       coalesce((select w.name from windlass.worker_names w where w.worker_no = r.worker_no),
                'worker ' || r.worker_no),
       'succeeded', r.started_at, r.finished_at, null, r.attempt_version
  from windlass.runs r
 where r.status = 'succeeded';
