-- Listings: the ids of one index, newest first, and which of them fit. See domain/listing.py.
--
-- A row that a damaged file cannot give must not just be missing from a page: records are joined from
-- the left, and what has none fits, so that whoever reads the page finds it short.

-- name: walk_all
select hex(r.id) from runs r
 where r.tenant = :tenant and r.id < :below and r.id >= :above
 order by r.id desc limit :most

-- name: walk_job
select hex(r.id) from runs r indexed by runs_by_job
 where r.tenant = :tenant and r.job = :value and r.id < :below and r.id >= :above
 order by r.id desc limit :most

-- name: walk_key
select hex(r.id) from runs r indexed by runs_by_key
 where r.tenant = :tenant and r.key = :value and r.id < :below and r.id >= :above
 order by r.id desc limit :most

-- name: walk_schedule
select hex(r.id) from runs r indexed by runs_by_schedule
 where r.tenant = :tenant and r.schedule = :value and r.id < :below and r.id >= :above
 order by r.id desc limit :most

-- name: walk_tag
select hex(g.id) from run_tags g
 where g.tenant = :tenant and g.tag = :value and g.id < :below and g.id >= :above
 order by g.id desc limit :most

-- name: walk_scheduled
select hex(p.id) from timers p
 where p.tenant = :tenant and p.why not in ('wait', 'paused') and p.id < :below and p.id >= :above
 order by p.id desc limit :most

-- name: walk_waiting
select hex(p.id) from timers p indexed by timers_waiting
 where p.tenant = :tenant and p.why = 'wait' and p.id < :below and p.id >= :above
 order by p.id desc limit :most

-- name: walk_paused
select hex(p.id) from timers p indexed by timers_paused
 where p.tenant = :tenant and p.why = 'paused' and p.id < :below and p.id >= :above
 order by p.id desc limit :most

-- name: walk_queued
select hex(p.id) from ready p indexed by ready_by_id
 where p.tenant = :tenant and p.id < :below and p.id >= :above
 order by p.id desc limit :most

-- name: walk_running
select hex(p.id) from leases p
 where p.tenant = :tenant and p.id < :below and p.id >= :above
 order by p.id desc limit :most

-- name: walk_failures
-- Failed or canceled runs.
select hex(p.id) from failures p indexed by failures_by_status
 where p.tenant = :tenant and p.status = :value and p.id < :below and p.id >= :above
 order by p.id desc limit :most

-- name: worker_numbers
select worker_no from worker_names where name = :worker

-- name: fitting
-- Which of these runs fit. Dead letters are the failed runs that nobody has discarded.
select i.value
  from json_each(:ids) i
  left join runs r on r.tenant = :tenant and r.id = unhex(i.value)
  left join leases l on l.tenant = r.tenant and l.id = r.id
  left join failures f on f.tenant = r.tenant and f.id = r.id
 where r.id is null
    or ((:job is null or r.job = :job)
        and (:queue is null or r.queue = :queue)
        and (:key is null or r.key = :key)
        and (:schedule is null or r.schedule = :schedule)
        and (:failure is null or r.failure = :failure)
        and (:error is null or f.error_type = :error
             or substr(f.error_type, -length(:error) - 1) = '.' || :error)
        and (not :dead or (f.status = 'failed' and f.discarded_at is null))
        and (:workers is null
             or coalesce(r.worker_no, l.worker_no) in (select value from json_each(:workers)))
        and (:tag is null
             or exists (select 1 from run_tags g
                         where g.tenant = r.tenant and g.tag = :tag and g.id = r.id))
        and (:created_from is null or r.created_at >= :created_from)
        and (:created_to is null or r.created_at < :created_to)
        and (:finished_from is null or r.finished_at >= :finished_from)
        and (:finished_to is null or r.finished_at < :finished_to)
        and (:statuses is null
             or coalesce(r.status,
                         case when l.id is not null then 'running' end,
                         (select 'queued' from ready q where q.tenant = r.tenant and q.id = r.id),
                         (select case t.why when 'wait' then 'waiting' when 'paused' then 'paused' end
                            from timers t where t.tenant = r.tenant and t.id = r.id),
                         'scheduled') in (select value from json_each(:statuses))))

-- name: ids_between
select hex(id) from runs
 where tenant = :tenant and id >= :first and id <= :last
 order by id limit :most
