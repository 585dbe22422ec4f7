-- Retention: see domain/retention.py.

-- name: due_chore
select kind, tenant, job, lap_at, lapping, terms, mark from chores
 where due_at <= :now order by due_at, kind, tenant, job limit 1

-- name: has_chores
select 1 from chores where kind = 'jobs'

-- name: put_chore
update chores set due_at = :due, lap_at = :lap, lapping = :lapping, terms = :terms, mark = :mark
 where kind = :kind and tenant = :tenant and job = :job

-- name: any_chore
select 1 from chores where due_at <= :now limit 1

-- name: next_job
-- A probe of the index for each job, however many runs it has.
select tenant, job from runs where tenant = :tenant and job > :job order by job limit 1

-- name: next_tenant
select tenant, job from runs where tenant > :tenant order by tenant, job limit 1

-- name: add_chore
insert into chores (kind, tenant, job, due_at) values (:kind, :tenant, :job, :now)
on conflict (kind, tenant, job) do nothing

-- name: job_retention
select retention from jobs where tenant = :tenant and name = :job

-- name: walk_old
select id, status, finished_at, stale_at from runs
 where tenant = :tenant and job = :job and id > :mark and id < :high
 order by id limit :limit

-- name: nth_newest
select id from runs where tenant = :tenant and job = :job order by id desc limit 1 offset :n

-- name: make_stale
-- The next seq of a success is kept free for run.stale, which its record tells of from now on.
update runs set stale_at = :now, seq = seq + (status <> 'succeeded')
 where tenant = :tenant and id = :id and status is not null and stale_at is null
returning status, seq, attempt

-- name: ended_run
select job, status, key, tags, attempt, seq, stale_at, links, schedule, slot from runs
 where tenant = :tenant and id = :id and status is not null

-- name: needed_by_links
-- A tree goes from its leaves, after its root has ended; what others wait for goes after them.
select exists (select 1 from children c join runs p on p.tenant = c.tenant and p.id = c.parent
                where c.tenant = :tenant and c.id = :id and p.status is null)
    or exists (select 1 from children c where c.tenant = :tenant and c.parent = :id)

-- name: needed_by_follower
-- Whatever its record says of links: that is noted a moment after the follower is there.
select exists (select 1 from follows f join runs w on w.tenant = f.tenant and w.id = f.id
                where f.tenant = :tenant and f.awaited = :id and w.status is null)

-- name: needed_by_handler
select exists (
  select 1 from event_rows e
    join runs h on h.tenant = e.tenant and h.id = unhex(replace(e.data ->> 'handled_by', '-', ''))
   where e.tenant = :tenant and e.subject = :id and e.type = 'run.failed' and h.status is null)

-- name: locations_of
select location from artifacts where tenant = :tenant and run = :id

-- name: drop_artifacts
delete from artifacts where tenant = :tenant and run = :id

-- name: drop_events
delete from event_rows where tenant = :tenant and subject = :id

-- name: drop_attempts
delete from attempt_rows where tenant = :tenant and run = :id

-- name: drop_steps
delete from steps where tenant = :tenant and run = :id

-- name: drop_generations
delete from generations where tenant = :tenant and run = :id

-- name: drop_signals
delete from signals where tenant = :tenant and run = :id

-- name: drop_logs
delete from run_logs where tenant = :tenant and run = :id

-- name: drop_progress
delete from progress where tenant = :tenant and id = :id

-- name: drop_child
delete from children where tenant = :tenant and id = :id

-- name: drop_follows
delete from follows where tenant = :tenant and id = :id

-- name: drop_batch
delete from batches where tenant = :tenant and run = :id

-- name: drop_shards
delete from shards where tenant = :tenant and batch = :id

-- name: drop_unit_failures
delete from unit_failures where tenant = :tenant and batch = :id

-- name: drop_units
delete from units where tenant = :tenant and batch = :id

-- name: drop_staged
delete from staged where tenant = :tenant and batch = :id

-- name: drop_key
-- One with time left outlives its run.
delete from run_keys
 where tenant = :tenant and job = :job and key = :key and run = :run
   and (expires_at is null or expires_at <= :now or live)

-- name: keep_gone_key
update run_keys
   set (run_status, run_created_at, run_scheduled_for) =
       (select r.status, r.created_at, r.scheduled_for from runs r
         where r.tenant = run_keys.tenant and r.id = run_keys.run)
 where tenant = :tenant and job = :job and key = :key and run = :run

-- name: drop_live
delete from schedule_live
 where tenant = :tenant and schedule = :schedule and slot = :slot and run = :run

-- name: drop_run
delete from runs where tenant = :tenant and id = :id

-- name: drop_expired_keys
delete from run_keys where (tenant, job, key) in (
  select tenant, job, key from run_keys
   where expires_at is not null and expires_at <= :now order by expires_at limit :limit)

-- name: drop_audit
delete from audit where n in (select n from audit order by n limit :limit) and at < :before

-- name: drop_slots_before
-- A cross join is not turned round: the slots of each schedule are found by their key.
delete from schedule_slots where (tenant, schedule, slot) in (
  select k.tenant, k.schedule, k.slot
    from schedules s
   cross join schedule_slots k
   where k.tenant = s.tenant and k.schedule = s.id and k.slot < :before and k.outcome <> 'waiting'
   limit :limit)

-- name: oldest_pages
select era, n, length(subjects) / 16, at from pages order by n limit :limit

-- name: drop_pages
delete from pages where n <= :n

-- name: feed_mark
select mark from chores where kind = 'feed' and tenant = '' and job = ''

-- name: keep_stale
-- A stale run is reopened: its record will not tell of that any more. It was paged when it happened.
insert into event_rows (tenant, subject, seq, type, at, attempt)
select r.tenant, r.id, r.seq + 1, 'run.stale', r.stale_at, r.attempt from runs r
 where r.tenant = :tenant and r.id = :id and r.status = 'succeeded' and r.stale_at is not null

-- name: oldest_run
select created_at from runs where tenant = :tenant order by id limit 1

-- name: store_bytes
select (select page_count from pragma_page_count) * (select page_size from pragma_page_size),
       (select freelist_count from pragma_freelist_count) * (select page_size from pragma_page_size)
