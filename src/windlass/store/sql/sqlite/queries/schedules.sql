-- Schedules, their slots, and which of their runs may live. Differs from PostgreSQL in that
-- nothing is locked row by row: the transaction holds the only write lock, so what it has read of
-- a schedule is still true when it advances it.

-- name: get_schedule
select tenant, id, key, job, rule, input, options, overlap, enabled, origin, next_slot, last_slot,
       fired, missed, skipped, version, seq, created_at, updated_at
  from schedules where tenant = :tenant and id = :id

-- name: get_schedule_by_key
select tenant, id, key, job, rule, input, options, overlap, enabled, origin, next_slot, last_slot,
       fired, missed, skipped, version, seq, created_at, updated_at
  from schedules where tenant = :tenant and key = :key

-- name: list_schedules
select tenant, id, key, job, rule, input, options, overlap, enabled, origin, next_slot, last_slot,
       fired, missed, skipped, version, seq, created_at, updated_at
  from schedules
 where tenant = :tenant and id < :below
   and (:job is null or job = :job) and (:enabled is null or enabled = :enabled)
   and (:origin is null or origin = :origin)
 order by id desc limit :limit

-- name: insert_schedule
insert into schedules (tenant, id, key, job, rule, input, options, overlap, enabled, origin,
                       next_slot, seq, created_at, updated_at)
values (:tenant, :id, :key, :job, :rule, :input, :options, :overlap, :enabled, :origin,
        :next_slot, :seq, :now, :now)

-- name: update_schedule
update schedules
   set key = :key, job = :job, rule = :rule, input = :input, options = :options,
       overlap = :overlap, origin = :origin, next_slot = :next_slot, version = :version,
       seq = :seq, updated_at = :now
 where tenant = :tenant and id = :id

-- name: enable_schedule
update schedules
   set enabled = :enabled, next_slot = :next_slot, seq = :seq, updated_at = :now
 where tenant = :tenant and id = :id

-- name: delete_schedule
delete from schedules where tenant = :tenant and id = :id

-- name: delete_waiting
delete from schedule_slots where tenant = :tenant and schedule = :id and outcome = 'waiting'

-- name: delete_slots
-- The oldest so many; -1: all.
delete from schedule_slots
 where tenant = :tenant and schedule = :id
   and slot in (select slot from schedule_slots
                 where tenant = :tenant and schedule = :id order by slot limit :limit)

-- name: any_slot
select 1 from schedule_slots where tenant = :tenant and schedule = :id limit 1

-- name: add_gone
insert into schedule_gone (tenant, schedule) values (:tenant, :id) on conflict do nothing

-- name: first_gone
select tenant, schedule from schedule_gone order by tenant, schedule limit 1

-- name: get_gone
select 1 from schedule_gone where tenant = :tenant and schedule = :id

-- name: delete_gone
delete from schedule_gone where tenant = :tenant and schedule = :id

-- name: delete_all_live
delete from schedule_live where tenant = :tenant and schedule = :id

-- name: last_seq
-- An id that was deleted goes on with its numbers.
select max(seq) from event_rows where tenant = :tenant and subject = :id

-- name: coming_schedules
select tenant, id, key, job, rule, input, options, overlap, enabled, origin, next_slot, last_slot,
       fired, missed, skipped, version, seq, created_at, updated_at
  from schedules
 where enabled and next_slot is not null and (tenant, id) > (:tenant, :id)
 order by tenant, id limit :limit

-- name: due_schedules
select tenant, id, key, job, rule, input, options, overlap, enabled, origin, next_slot, last_slot,
       fired, missed, skipped, version, seq, created_at, updated_at
  from schedules where enabled and next_slot <= :now
 order by next_slot limit :limit

-- name: next_schedule
select min(next_slot) from schedules where enabled and next_slot > :now

-- name: any_waiting
select 1 from schedule_slots where outcome = 'waiting' and tenant >= '' limit 1

-- name: list_slots
select slot, outcome, at, run from schedule_slots
 where tenant = :tenant and schedule = :id and slot < :before
 order by slot desc limit :limit

-- name: get_slot
select outcome, run, pending from schedule_slots
 where tenant = :tenant and schedule = :id and slot = :slot

-- name: put_slot
-- A slot that was missed or skipped may be made good by hand.
insert into schedule_slots (tenant, schedule, slot, outcome, run, at, pending)
values (:tenant, :schedule, :slot, :outcome, :run, :at, :pending)
on conflict (tenant, schedule, slot) do update
  set outcome = excluded.outcome, run = excluded.run, at = excluded.at, pending = excluded.pending

-- name: miss_slot
insert into schedule_slots (tenant, schedule, slot, outcome, at)
values (:tenant, :schedule, :slot, 'missed', :at)
on conflict do nothing

-- name: ended_live
-- What has ended since somebody last looked, among the oldest so many; -1: among all.
select oldest.tenant, oldest.schedule, oldest.slot, oldest.run
  from (select tenant, schedule, slot, run from schedule_live
         where tenant = :tenant and schedule = :schedule order by slot limit :most) oldest
 where not exists (select 1 from runs r
                    where r.tenant = oldest.tenant and r.id = oldest.run and r.status is null)

-- name: delete_live
delete from schedule_live
 where tenant = :tenant and schedule = :schedule and slot = :slot and run = :run

-- name: list_live
select slot, run from schedule_live where tenant = :tenant and schedule = :schedule order by slot

-- name: add_live
insert into schedule_live (tenant, schedule, slot, run) values (:tenant, :schedule, :slot, :run)
on conflict do nothing

-- name: count_waiting
select count(*) from schedule_slots
 where tenant = :tenant and schedule = :schedule and outcome = 'waiting'

-- name: advance_schedule
update schedules
   set next_slot = :next_slot, last_slot = :last_slot, fired = fired + :fired,
       missed = missed + :missed, skipped = skipped + :skipped, seq = :seq
 where tenant = :tenant and id = :id

-- name: fire_run
insert into runs (tenant, id, job, job_version, queue, priority, input, options, key, tags,
                  trace, metadata, enqueued_by, created_at, scheduled_for, expires_at, deadline_at, schedule, slot)
values (:tenant, :id, :job, :job_version, :queue, :priority, :input, :options, :key, :tags,
        :trace, :metadata, :enqueued_by, :created_at, :scheduled_for, :expires_at, :deadline_at, :schedule, :slot)

-- name: free_schedules
-- Those of which slots wait, one probe of the index each, and no run is live.
with recursive owner (tenant, schedule) as (
  select * from (select tenant, schedule from schedule_slots
                  where outcome = 'waiting' and tenant >= ''
                  order by tenant, schedule limit 1) first
  union all
  select k.tenant, k.schedule
    from owner cross join schedule_slots k
   where k.outcome = 'waiting'
     and (k.tenant, k.schedule, k.slot) = (
       select n.tenant, n.schedule, n.slot from schedule_slots n
        where n.outcome = 'waiting' and (n.tenant, n.schedule) > (owner.tenant, owner.schedule)
        order by n.tenant, n.schedule, n.slot limit 1)
)
select owner.tenant, owner.schedule
  from owner cross join schedules s on s.tenant = owner.tenant and s.id = owner.schedule
 where s.enabled
   and not exists (select 1 from schedule_live l
                    cross join runs r on r.tenant = l.tenant and r.id = l.run
                    where l.tenant = owner.tenant and l.schedule = owner.schedule
                      and r.status is null)
 limit :limit

-- name: first_waiting
select slot, pending from schedule_slots
 where tenant = :tenant and schedule = :schedule and outcome = 'waiting'
 order by slot limit 1

-- name: count_fired
update schedules set fired = fired + 1 where tenant = :tenant and id = :id
