-- Enqueue. The batch is inserted as it is; only where a row was known already, or has a key,
-- is each looked up. Differs from PostgreSQL in that nothing can appear between the lookup and
-- the insert: the transaction holds the only write lock.

-- name: enqueue_run
insert into runs (tenant, id, job, job_version, queue, priority, input, options, key, tags,
                  trace, metadata, enqueued_by, created_at, scheduled_for, expires_at, deadline_at)
values (:tenant, :id, :job, :job_version, :queue, :priority, :input, :options, :key, :tags,
        :trace, :metadata, :enqueued_by, :created_at, :scheduled_for, :expires_at, :deadline_at)

-- name: enqueue_ready
-- What else a new run needs is copied from its row: the new rows are a stretch of rowids.
insert into ready (tenant, id, job, queue, rank, ready_at,
                   attempt, failures, crash_count, token, seq, expires_at, deadline_at)
select tenant, id, job, queue, -priority, created_at, 0, 0, 0, 0, 1, expires_at, deadline_at
  from runs where rowid between :first and :last and scheduled_for <= created_at

-- name: enqueue_timers
insert into timers (tenant, id, job, queue, rank, due_at, why,
                    attempt, failures, crash_count, token, seq, expires_at, deadline_at)
select tenant, id, job, queue, -priority, scheduled_for, 'delay', 0, 0, 0, 0, 1, expires_at,
       deadline_at
  from runs where rowid between :first and :last and scheduled_for > created_at

-- name: enqueue_delayed
-- The record says as much of a run that is due at once.
insert into event_rows (tenant, subject, seq, type, at, attempt, data)
select tenant, id, 1, 'run.enqueued', created_at, 0, '{"why":"delay"}'
  from runs where rowid between :first and :last and scheduled_for > created_at

-- name: enqueue_tag
insert into run_tags (tenant, tag, id) values (:tenant, :tag, :id)

-- name: known_run
select 1 from runs where tenant = :tenant and id = :id

-- name: existing_run
-- What a repeated enqueue answers with.
select case when r.status is not null then r.status
            when exists (select 1 from ready q where q.tenant = r.tenant and q.id = r.id)
            then 'queued'
            when exists (select 1 from leases l where l.tenant = r.tenant and l.id = r.id)
            then 'running'
            else (select case t.why when 'wait' then 'waiting' when 'paused' then 'paused'
                                    else 'scheduled' end
                    from timers t where t.tenant = r.tenant and t.id = r.id) end,
       r.created_at, r.scheduled_for
  from runs r where r.tenant = :tenant and r.id = :id
 union all
-- One that is gone, whose key has time left.
select run_status, run_created_at, run_scheduled_for from run_keys
 where tenant = :tenant and run = :id and run_status is not null
 limit 1

-- name: known_key
-- A run that has ended has its key no more if either it or the new one wants that.
select k.run, k.input_hash from run_keys k
 where k.tenant = :tenant and k.job = :job and k.key = :key
   and (k.expires_at is null or k.expires_at > :now)
   and not ((k.live or :live)
            and (k.run_status is not null
                 or exists (select 1 from runs r where r.tenant = k.tenant and r.id = k.run
                               and r.status is not null)))

-- name: key_owner
select k.run,
       coalesce(k.expires_at <= :now, false) or k.run_status is not null
       or exists (select 1 from runs r where r.tenant = k.tenant and r.id = k.run
                     and r.status is not null)
  from run_keys k where k.tenant = :tenant and k.job = :job and k.key = :key

-- name: take_key
-- A key that is free is taken over; others were found by known_key.
insert into run_keys (tenant, job, key, run, input_hash, expires_at, live)
values (:tenant, :job, :key, :run, :input_hash, :expires_at, :live)
on conflict (tenant, job, key) do update
  set run = excluded.run, input_hash = excluded.input_hash, expires_at = excluded.expires_at,
      live = excluded.live, run_status = null, run_created_at = null, run_scheduled_for = null
