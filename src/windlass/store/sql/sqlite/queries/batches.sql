-- Batches and their shards: see domain/batch.py.

-- name: place_of_shard
-- The batch and the number of a shard, whose lease is held. One that its batch began anew without has none.
select c.parent, c.n, c.root, c.path
  from leases l join children c on c.tenant = l.tenant and c.id = l.id
 where l.tenant = :tenant and l.id = :id and l.token = :token
   and c.generation = 0 and c.detached = 0

-- name: put_batch
insert into batches (tenant, run, total, size, shards)
values (:tenant, :run, :total, :size, :shards)
on conflict (tenant, run) do update set stopped = null, forced = 0

-- name: delete_batch
delete from batches where tenant = :tenant and run = :run

-- name: delete_shards
delete from shards where tenant = :tenant and batch = :batch

-- name: delete_unit_failures
delete from unit_failures where tenant = :tenant and batch = :batch

-- name: get_batch_row
select total, size, shards, stopped from batches where tenant = :tenant and run = :run

-- name: open_shard
-- One that is new has the units that its number means; the shard of a source has no end.
insert into shards (tenant, batch, n, first, until)
select b.tenant, b.run, :n, iif(b.total is null, 0, :n * b.size),
       iif(b.total is null, null, min(b.total, (:n + 1) * b.size))
  from batches b
 where b.tenant = :tenant and b.run = :batch
   and not exists (select 1 from shards s
                    where s.tenant = b.tenant and s.batch = b.run and s.n = :n)

-- name: put_shard
insert into shards (tenant, batch, n, first, until, place)
values (:tenant, :batch, :n, :first, :until, :place)
on conflict (tenant, batch, n) do nothing

-- name: get_shard
select s.n, s.first, s.until, s.succeeded, s.failed, s.place, s.done, b.stopped, r.input
  from shards s
  join batches b on b.tenant = s.tenant and b.run = s.batch
  left join runs r on r.tenant = s.tenant and r.id = s.batch
 where s.tenant = :tenant and s.batch = :batch and s.n = :n

-- name: forgive_crashes
-- A shard that gets on is no poison: its crashes count anew.
update leases set crash_count = 0
 where tenant = :tenant and id = :id and crash_count > 0
   and exists (select 1 from shards s where s.tenant = :tenant and s.batch = :batch and s.n = :n
                  and s.succeeded + s.failed < :processed)

-- name: flush_shard
update shards set succeeded = :succeeded, failed = :failed, place = :place, done = :done
 where tenant = :tenant and batch = :batch and n = :n

-- name: put_unit_failure
insert into unit_failures (tenant, batch, n, shard, unit, error)
values (:tenant, :batch, :n, :shard, :unit, :error)
on conflict (tenant, batch, n) do update set unit = excluded.unit, error = excluded.error

-- name: stop_batch
-- If more units have failed than may.
update batches set stopped = 'max_failed'
 where tenant = :tenant and run = :batch and stopped is null
   and (select sum(s.failed) from shards s where s.tenant = :tenant and s.batch = :batch) > :most

-- name: batch_stopped
select stopped from batches where tenant = :tenant and run = :batch

-- name: split_state
-- Where a shard ends, which unit comes next, how many shards there are, its place in a file, how many are live, and may be: none
-- while the batch is paused.
select s.until, s.first + s.succeeded + s.failed, b.shards, s.place,
       (select count(*) from children c
         where c.tenant = s.tenant and c.parent = s.batch and c.generation = 0 and c.path = :path
           and c.state <> 'ended'),
       (select json_extract(t.value, '$.parallel') from steps t
         where t.tenant = s.tenant and t.run = s.batch and t.generation = 0 and t.path = :path
           and t.state = 'waiting'
           and not exists (select 1 from timers w where w.tenant = s.tenant and w.id = s.batch
                              and w.why = 'paused'))
  from shards s join batches b on b.tenant = s.tenant and b.run = s.batch
 where s.tenant = :tenant and s.batch = :batch and s.n = :n

-- name: shorten_shard
update shards set until = :until, done = 0 where tenant = :tenant and batch = :batch and n = :n

-- name: add_shard
update batches set shards = shards + 1 where tenant = :tenant and run = :batch

-- name: is_child_of
select 1 from children where tenant = :tenant and id = :id and parent = :parent

-- name: count_batch
select coalesce(b.total, case when count(s.n) > 0 and min(s.done) = 1
                              then sum(s.succeeded + s.failed) end),
       coalesce(sum(s.succeeded), 0), coalesce(sum(s.failed), 0), b.shards,
       coalesce(sum(s.done), 0), b.stopped
  from batches b left join shards s on s.tenant = b.tenant and s.batch = b.run
 where b.tenant = :tenant and b.run = :run
 group by b.tenant, b.run

-- name: list_failed_units
select n, shard, unit, error from unit_failures
 where tenant = :tenant and batch = :batch and n > :after order by n limit :limit

-- name: is_batch
select 1 from batches where tenant = :tenant and run = :run

-- name: is_paused
select 1 from timers where tenant = :tenant and id = :id and why = 'paused'

-- name: wake_batch
-- A batch was paused, or goes on: its shards are to follow.
insert into wakes (tenant, run) select tenant, run from batches where tenant = :tenant and run = :run

-- name: force_batch
-- A batch was terminated.
update batches set forced = 1 where tenant = :tenant and run = :run

-- name: reopen_batch
update batches set stopped = null, forced = 0 where tenant = :tenant and run = :run

-- name: is_forced
select 1 from batches where tenant = :tenant and run = :run and forced = 1

-- name: shards_to_pause
-- Those that may run, and that nobody has paused, or asked to stop.
select c.id from children c
 where c.tenant = :tenant and c.parent = :batch and c.generation = 0 and c.path = :path
   and c.state = 'live' and c.state <> 'ended' and c.paused = 0
   and not exists (select 1 from timers t where t.tenant = c.tenant and t.id = c.id
                      and t.why = 'paused')
   and not exists (select 1 from leases l where l.tenant = c.tenant and l.id = c.id
                      and l.intent is not null)
 limit :limit

-- name: shards_to_resume
select id from children
 where tenant = :tenant and parent = :batch and path = :path and paused = 1
 limit :limit

-- name: mark_paused
update children set paused = :paused where tenant = :tenant and id = :id

-- name: ended_child
select 1 from children where tenant = :tenant and id = :id and state = 'ended'
