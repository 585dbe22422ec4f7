-- Whole calls as one statement. Between two statements of a transaction a thread needs Python's
-- lock again, and a handler that holds that for long would let all other processes wait for the
-- file's lock. So the hot calls are one insert into a view: triggers do the rest, and SQLite begins,
-- writes and commits without coming back to Python. In a transaction they do the same.
--
-- The views, their triggers and the tables that they answer in are temporary: they belong to the
-- connection, are made when it is opened, and are not in the file. Their names have a prefix,
-- because they hide tables of the same names from statements of the caller's own. Rows of null are
-- padding: with few widths, each statement is prepared once.

-- name: arm
create temp table if not exists windlass_now (at);
create temp table if not exists windlass_ended (
  tenant, seq, attempt, id, token, failures, crash_count, worker_no, started_at, started_seq,
  version, result,
  primary key (tenant, seq, attempt, id)  -- by pages; a lease has one seq and attempt
) without rowid;
create temp table if not exists windlass_taken (
  n integer primary key,
  tenant, id, job, queue, rank, ready_at, attempt, failures, crash_count, token, seq, deadline_at
);
create temp table if not exists windlass_stops (queue, rank, ready_at, id);

create temp view if not exists windlass_cycle (
  act, tenant, version, ends, now, worker, claim_no, jobs, queue, rank, ready_at, id, "window",
  most
) as select null, null, null, null, null, null, null, null, null, null, null, null, null, null;

-- The first row of each statement or, in a transaction, of the first of them. The caller looked at
-- the clock before it had the lock. Whoever wrote meanwhile may have looked later: what happens now
-- happens after that. More than a second later is not meanwhile: then the clock was set back.
create temp trigger if not exists windlass_begin instead of insert on windlass_cycle
when new.act = 'begin'
begin
  delete from windlass_now;
  delete from windlass_ended;
  delete from windlass_taken;
  delete from windlass_stops;
  insert into windlass_now
  select max(new.now, coalesce((
    select at from pages
     where n = (select max(n) from pages) and at < new.now + 1000000), new.now));
end;

-- Attempts of a tenant's runs that succeeded under one version, if their leases are still there.
-- Each is one text: 36 characters of its id, 20 of its token, and its result. The second end of a
-- lease finds the first. The record says all that there is to say of a success.
create temp trigger if not exists windlass_succeed instead of insert on windlass_cycle
when new.act = 'succeed'
begin
  insert or ignore into windlass_ended
  select l.tenant, l.seq, l.attempt, l.id, l.token, l.failures, l.crash_count, l.worker_no,
         l.started_at, l.started_seq, new.version, nullif(substr(e.value, 57), '')
    from json_each(new.ends) e cross join leases l
      on l.tenant = new.tenant and l.id = unhex(substr(e.value, 1, 36), '-')
     and l.token = cast(substr(e.value, 37, 20) as integer);
  update runs
     set status = 'succeeded', result = e.result, attempt = e.attempt, failures = e.failures,
         crash_count = e.crash_count, token = e.token, seq = e.seq + 1,
         started_seq = e.started_seq, started_at = e.started_at,
         finished_at = (select at from windlass_now), worker_no = e.worker_no,
         attempt_version = e.version
    from windlass_ended e
   where e.tenant = new.tenant and e.version is new.version
     and runs.tenant = e.tenant and runs.id = e.id;
  insert into pages (at, tenant, type, seq, attempt, subjects)
  select (select at from windlass_now), tenant, 'run.succeeded', seq + 1, attempt,
         unhex(group_concat(hex(id), ''))
    from windlass_ended where tenant = new.tenant and version is new.version
   group by tenant, seq, attempt;
end;

-- One by one, because a delete by a list of ids makes two lists first.
create temp trigger if not exists windlass_release after insert on windlass_ended
begin
  delete from leases where tenant = new.tenant and id = new.id;
end;

-- What was taken, as one range of the claim order: under the same conditions nothing else is in it.
create temp view if not exists windlass_unready (
  queue, jobs, now, rank, ready_at, id, tenant, last_rank, last_ready_at, last_id, last_tenant,
  taken
) as select null, null, null, null, null, null, null, null, null, null, null, null;

-- Mostly nothing else is in the range at all. Without the conditions SQLite deletes as it goes, instead
-- of making a list first: that takes half as long. Then nothing is left for the delete with them.
create temp view if not exists windlass_unready_range (
  queue, rank, ready_at, id, tenant, last_rank, last_ready_at, last_id, last_tenant
) as select null, null, null, null, null, null, null, null, null;

create temp trigger if not exists windlass_unready_all instead of insert on windlass_unready_range
begin
  delete from ready  -- without an alias: with one, no caller could rename a table of their own
   where queue = new.queue
     and (rank, ready_at, id, tenant) >= (new.rank, new.ready_at, new.id, new.tenant)
     and (rank, ready_at, id, tenant)
         <= (new.last_rank, new.last_ready_at, new.last_id, new.last_tenant);
end;

create temp trigger if not exists windlass_unready_now instead of insert on windlass_unready
begin
  insert into windlass_unready_range
  select new.queue, new.rank, new.ready_at, new.id, new.tenant,
         new.last_rank, new.last_ready_at, new.last_id, new.last_tenant
   where new.taken = (
     select count(*) from ready
      where queue = new.queue
        and (rank, ready_at, id, tenant) >= (new.rank, new.ready_at, new.id, new.tenant)
        and (rank, ready_at, id, tenant)
            <= (new.last_rank, new.last_ready_at, new.last_id, new.last_tenant));
  delete from ready
   where queue = new.queue
     and (rank, ready_at, id, tenant) >= (new.rank, new.ready_at, new.id, new.tenant)
     and (rank, ready_at, id, tenant)
         <= (new.last_rank, new.last_ready_at, new.last_id, new.last_tenant)
     and job in (select value from json_each(new.jobs))
     and (expires_at is null or expires_at > new.now)
     and (deadline_at is null or deadline_at > new.now)
     and (not exists (select 1 from pauses) or not exists (
           select 1 from pauses p where p.tenant = ready.tenant
              and ((p.kind = 'queue' and p.name = new.queue) or (p.kind = 'job' and p.name = ready.job))));
end;

-- The head of one queue, as far as there are still seats: nothing for a worker that is dead. The
-- window is a subquery with a limit: rows are looked at in claim order, no more of them than the
-- window, and the outer limit stops it as soon as enough are found. Pauses are read here, by the
-- statement that writes: see domain/pause.py.
create temp trigger if not exists windlass_claim instead of insert on windlass_cycle
when new.act = 'claim'
 and exists (select 1 from workers where id = new.worker and alive_until > new.now)
 and (not exists (select 1 from pauses)
      or (not exists (select 1 from still_work where kind = 'queue' and name = new.queue)
          and exists (select 1 from json_each(new.jobs)
                       where value not in (select name from still_work where kind = 'job'))))
begin
  insert into windlass_taken (tenant, id, job, queue, rank, ready_at, attempt, failures,
                              crash_count, token, seq, deadline_at)
  select w.tenant, w.id, w.job, w.queue, w.rank, w.ready_at, w.attempt, w.failures,
         w.crash_count, w.token, w.seq, w.deadline_at
    from (select r.tenant, r.id, r.job, r.queue, r.rank, r.ready_at, r.attempt, r.failures,
                 r.crash_count, r.token, r.seq, r.expires_at, r.deadline_at
            from ready r
           where r.queue = new.queue
             and (r.rank, r.ready_at, r.id) > (new.rank, new.ready_at, new.id)
           order by r.rank, r.ready_at, r.id, r.tenant
           limit new."window") w
   where w.job in (select value from json_each(new.jobs))
     and (w.expires_at is null or w.expires_at > new.now)
     and (w.deadline_at is null or w.deadline_at > new.now)
     and (not exists (select 1 from pauses) or not exists (
           select 1 from pauses p where p.tenant = w.tenant
              and ((p.kind = 'queue' and p.name = new.queue) or (p.kind = 'job' and p.name = w.job))))
   limit new.most - (select count(*) from windlass_taken);
  -- Where the window ended before there were enough: the last key of it, while it is whole.
  insert into windlass_stops
  select r.queue, r.rank, r.ready_at, r.id
    from ready r
   where r.queue = new.queue and (r.rank, r.ready_at, r.id) > (new.rank, new.ready_at, new.id)
   order by r.rank, r.ready_at, r.id, r.tenant
   limit (new."window" >= 0 and (select count(*) from windlass_taken) < new.most)
  offset max(new."window" - 1, 0);
  insert into leases (tenant, id, job, queue, rank, worker_no, claim_no, started_at,
                      attempt, failures, crash_count, token, seq, started_seq, deadline_at)
  select t.tenant, t.id, t.job, t.queue, t.rank,
         (select worker_no from workers where id = new.worker), new.claim_no,
         (select at from windlass_now), t.attempt + 1, t.failures, t.crash_count, t.token + 1,
         t.seq + 1, t.seq + 1, t.deadline_at
    from windlass_taken t where t.queue = new.queue;
  insert into pages (at, tenant, type, seq, attempt, subjects)
  select (select at from windlass_now), t.tenant, 'run.started', t.seq + 1, t.attempt + 1,
         unhex(group_concat(hex(t.id), ''))
    from windlass_taken t where t.queue = new.queue
   group by t.tenant, t.seq, t.attempt;
  insert into windlass_unready
  select new.queue, new.jobs, new.now, a.rank, a.ready_at, a.id, a.tenant,
         z.rank, z.ready_at, z.id, z.tenant, b.taken
    from (select min(n) as first, max(n) as last, count(*) as taken
            from windlass_taken where queue = new.queue) b
    join windlass_taken a on a.n = b.first join windlass_taken z on z.n = b.last;
end;

-- Of each tenant, the first run that is due at once brings the page of them all.
create temp view if not exists windlass_enqueue (
  tenant, id, job, job_version, queue, priority, input, options, key, tags, trace, metadata,
  enqueued_by, created_at, scheduled_for, expires_at, deadline_at, subjects
) as select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
            null, null, null;

create temp trigger if not exists windlass_record instead of insert on windlass_enqueue
when new.id is not null
begin
  insert into runs (tenant, id, job, job_version, queue, priority, input, options, key, tags,
                    trace, metadata, enqueued_by, created_at, scheduled_for, expires_at,
                    deadline_at)
  values (new.tenant, new.id, new.job, new.job_version, new.queue, new.priority, new.input,
          new.options, new.key, new.tags, new.trace, new.metadata, new.enqueued_by,
          new.created_at, new.scheduled_for, new.expires_at, new.deadline_at);
  insert into ready (tenant, id, job, queue, rank, ready_at,
                     attempt, failures, crash_count, token, seq, expires_at, deadline_at)
  select new.tenant, new.id, new.job, new.queue, -new.priority, new.created_at, 0, 0, 0, 0, 1,
         new.expires_at, new.deadline_at
   where new.scheduled_for <= new.created_at;
  insert into timers (tenant, id, job, queue, rank, due_at, why,
                      attempt, failures, crash_count, token, seq, expires_at, deadline_at)
  select new.tenant, new.id, new.job, new.queue, -new.priority, new.scheduled_for, 'delay',
         0, 0, 0, 0, 1, new.expires_at, new.deadline_at
   where new.scheduled_for > new.created_at;
  insert into event_rows (tenant, subject, seq, type, at, attempt, data)
  select new.tenant, new.id, 1, 'run.enqueued', new.created_at, 0, '{"why":"delay"}'
   where new.scheduled_for > new.created_at;
  insert into pages (at, tenant, type, seq, attempt, subjects)
  select new.created_at, new.tenant, 'run.enqueued', 1, 0, new.subjects
   where new.subjects is not null;
  insert into run_tags (tenant, tag, id)
  select distinct new.tenant, value, new.id from json_each(new.tags) where new.tags is not null;
end;

-- The mark of a sweep, and the end of those that say nothing any more. If the last one is old there
-- is a gap between the two; before the first one there is no telling.
create temp view if not exists windlass_sweep (now, shortest, longest)
as select null, null, null;

create temp trigger if not exists windlass_note instead of insert on windlass_sweep
begin
  insert into sweeps (at, gap_from)
  select new.now, case when max(at) is null then 0
                       when max(at) < new.now - new.shortest / 3 then max(at) end
    from sweeps where at <= new.now + new.shortest / 3;
  delete from sweeps
   where (at < new.now and (gap_from is null or at < new.now - new.longest))
      or at > new.now + new.shortest / 3;
end;

-- name: note_sweep
insert into windlass_sweep (now, shortest, longest) values (:now, :shortest, :longest)

-- name: cycle_at_once
insert into windlass_cycle (act, tenant, version, ends, now, worker, claim_no, jobs, queue, rank,
                            ready_at, id, "window", most)
values (:act, :tenant, :version, :ends, :now, :worker, :claim_no, :jobs, :queue, :rank, :ready_at,
        :id, :window, :most)

-- name: ended
select tenant, id, token from windlass_ended

-- name: count_ended
select count(*) from windlass_ended

-- name: taken
-- In the order in which they were taken. Joined from the left, so that a record that a damaged file
-- has lost is noticed.
select t.tenant, t.id, t.job, t.queue, t.token + 1, t.attempt + 1, t.failures, t.crash_count,
       n.input, n.options, n.trace, t.rank, t.ready_at, n.schedule, n.slot, t.deadline_at,
       n.tags, n.key, n.metadata, n.enqueued_by, nullif(n.scheduled_for, t.ready_at), nullif(n.links & 1, 0)
  from windlass_taken t left join runs n on n.tenant = t.tenant and n.id = t.id
 order by t.n

-- name: stops
select queue, rank, ready_at, id from windlass_stops

-- name: enqueue_at_once
insert into windlass_enqueue (tenant, id, job, job_version, queue, priority, input, options, key,
                              tags, trace, metadata, enqueued_by, created_at, scheduled_for,
                              expires_at, deadline_at, subjects)
values (:tenant, :id, :job, :job_version, :queue, :priority, :input, :options, :key,
        :tags, :trace, :metadata, :enqueued_by, :created_at, :scheduled_for, :expires_at, :deadline_at, :subjects)
