-- The core: jobs, runs, their positions, leases, history.
--
-- A live run has exactly one row in timers, ready or leases; a finished run has none,
-- and runs.status is set. Same tables, columns and names as on PostgreSQL. What differs:
-- ids are the 16 bytes of the UUID, times are microseconds since 1970 in UTC, JSON and
-- lists are text. Small rows that are found by their whole key live in the key's own tree
-- (without rowid); runs, whose inputs and results may be large, and pages, whose rowid is
-- the order of the feed, do not. There are no foreign keys on the hot tables: the program
-- keeps them right, and the history checker of the fault tests proves it.
--
-- What the record or the lease already says is written nowhere else. The views events and attempts
-- put a run's history together from the record, the lease, its steps, event_rows and attempt_rows.

create table jobs (
  tenant        text not null,
  name          text not null,
  queue         text not null,
  priority      integer not null default 0,
  max_attempts  integer not null default 5,
  timeout       real,
  retry         text not null default '{}',
  parameters    text,
  default_input text,
  defaults      text,
  on_failure    text,  -- who handles the failures of its runs
  phases        text,  -- the names of a pipeline's phases, in order
  version       text,
  created_at    integer not null,
  updated_at    integer not null,
  primary key (tenant, name)
) strict, without rowid;

create table runs (
  tenant        text not null,
  id            blob not null check (length(id) = 16),
  job           text not null,
  job_version   text,
  queue         text not null,
  priority      integer not null,
  input         text not null,
  options       text,
  key           text,
  tags          text,
  trace         text,
  metadata      text,
  enqueued_by   blob,  -- the run in whose handler this one was enqueued
  created_at    integer not null,
  scheduled_for integer not null,
  expires_at    integer,
  deadline_at   integer,
  -- written at the end; null while the run is live
  status        text check (status in ('succeeded', 'failed', 'canceled')),
  failure       text check (failure in
                  ('exhausted', 'fatal', 'timeout', 'crashed', 'expired', 'deadline',
                   'nondeterminism')),
  result        text,
  error         text,
  reason        text,
  attempt       integer,
  failures      integer,
  crash_count   integer,
  token         integer,
  seq           integer,
  -- of the attempt that ended the run, if one did
  started_seq   integer,
  started_at    integer,
  finished_at   integer,
  worker_no     integer,
  attempt_version text,
  stale_at      integer,
  primary key (tenant, id),
  check ((status is null) = (finished_at is null)),
  check ((status = 'failed') = (failure is not null) or status is null)
) strict;

create index runs_by_job on runs (tenant, job, id);
-- Only runs that have a key pay for it.
create index runs_by_key on runs (tenant, key, id) where key is not null;

create table timers (
  tenant      text not null,
  id          blob not null,
  job         text not null,
  queue       text not null,
  rank        integer not null,
  due_at      integer not null,
  why         text not null check (why in ('delay', 'backoff', 'snooze', 'sleep', 'wait', 'held',
                                                   'paused')),
  attempt     integer not null,
  failures    integer not null,
  crash_count integer not null,
  token       integer not null,
  seq         integer not null,
  expires_at  integer,
  deadline_at integer,
  waits       text,  -- the paths of the steps in which it sleeps or waits
  -- of one that is paused: what its timer was before; nothing if it was ready, or left a lease for its queue
  was_why     text,
  was_due_at  integer,
  primary key (tenant, id)
) strict, without rowid;

create index timers_by_due on timers (due_at);
create index timers_by_expiry on timers (expires_at) where expires_at is not null;
create index timers_by_deadline on timers (deadline_at) where deadline_at is not null;
-- What backs off is found without reading what is scheduled.
create index timers_in_backoff on timers (job, queue) where why = 'backoff';
create index timers_waiting on timers (tenant, id) where why = 'wait';
create index timers_paused on timers (tenant, id) where why = 'paused';

-- The claim order is the tree itself: a claim reads, copies and deletes one range of it.
create table ready (
  tenant       text not null,
  id           blob not null,
  job          text not null,
  queue        text not null,
  rank         integer not null,  -- minus the priority: smaller is more urgent
  ready_at     integer not null,
  attempt      integer not null,
  failures     integer not null,
  crash_count  integer not null,
  token        integer not null,
  seq          integer not null,
  expires_at   integer,
  deadline_at  integer,
  published_at integer,
  primary key (queue, rank, ready_at, id, tenant)
) strict, without rowid;

create unique index ready_by_id on ready (tenant, id);
create index ready_by_expiry on ready (expires_at) where expires_at is not null;
create index ready_by_deadline on ready (deadline_at) where deadline_at is not null;

create table leases (
  tenant      text not null,
  id          blob not null,
  job         text not null,
  queue       text not null,
  rank        integer not null,
  worker_no   integer not null,
  claim_no    integer not null,
  started_at  integer not null,
  token       integer not null,
  attempt     integer not null,
  failures    integer not null,
  crash_count integer not null,
  seq         integer not null,
  started_seq integer not null,  -- seq as the claim left it: that of run.started
  deadline_at integer,
  intent      text check (intent in ('cancel', 'pause')),
  reason      text,
  primary key (tenant, id)
) strict, without rowid;

create index leases_by_worker on leases (worker_no);
create index leases_by_deadline on leases (deadline_at) where deadline_at is not null;

-- A worker's number stands for it in leases and records; its name is kept here when it is gone. No
-- number is used twice, so a lease of a number that no worker has is dead.
create table worker_names (
  worker_no integer primary key autoincrement,
  name      text not null
) strict;

create index worker_names_by_name on worker_names (name);

create table workers (
  id          text primary key,
  worker_no   integer not null,
  host        text not null,
  pid         integer not null,
  version     text not null,
  queues      text,
  jobs        text not null,
  seats       integer not null,
  started_at  integer not null,
  alive_until integer not null,
  renewed_at  integer,  -- alive_until alone does not tell how long its lease is
  -- while its event loop does not answer: since when, and whose handler blocks it, if known
  blocked_since  integer,
  blocked_tenant text,
  blocked_run    text
) strict, without rowid;

create unique index workers_by_no on workers (worker_no);

-- When somebody swept, for those who judge by time: an outage is no crash of the workers. Only the
-- latest sweep is kept, and those that ended a gap (nobody had swept since gap_from) that still
-- counts.
create table sweeps (
  at       integer not null,
  gap_from integer
) strict;

-- The attempts that their run's record does not tell of: all but the last one of a run that
-- succeeded.
create table attempt_rows (
  tenant      text not null,
  run         blob not null,
  attempt     integer not null,
  token       integer not null,
  worker      text not null,
  outcome     text not null check (outcome in ('succeeded', 'failed', 'timeout', 'snoozed', 'waited',
                                               'continued', 'canceled', 'interrupted', 'crashed')),
  started_seq integer not null,
  ended_seq   integer not null,
  started_at  integer not null,
  finished_at integer not null,
  error       text,
  version     text,  -- of the job's definition that it ran, where its worker told
  primary key (tenant, run, attempt)
) strict, without rowid;

-- For the view events, which gives a page of a long history in the order of seq. Only a run that was
-- reopened after its success has rows in the second one.
create index attempt_rows_by_start on attempt_rows (tenant, run, started_seq);
create index attempt_rows_succeeded on attempt_rows (tenant, run, ended_seq)
  where outcome = 'succeeded';

-- What runs remember of their steps, see domain/step.py. Those of the inputs that a run went on from
-- have the number of their generation; 0 is the run's own. Those that had failed when somebody reopened
-- the run have that of its last attempt, negative: they are tried anew.
create table steps (
  tenant     text not null,
  run        blob not null,
  generation integer not null,
  path       text not null,
  kind       text not null,
  state      text not null check (state in ('retrying', 'waiting', 'done', 'failed', 'timed_out')),
  seq        integer,  -- of the event that ended it
  attempt    integer not null,
  failures   integer not null,
  started_at integer not null,
  at         integer not null,
  until      integer,
  input      text,
  signal     text,  -- the name of the signal that it waits for
  value      text,
  error      text,
  primary key (tenant, run, generation, path),
  check ((seq is null) = (state in ('retrying', 'waiting')))
) strict, without rowid;

create index steps_by_seq on steps (tenant, run, seq) where seq is not null;

-- The approvals that are asked for, see domain/approval.py.
create index steps_asking on steps (tenant, run, path)
  where kind = 'approval' and state = 'waiting' and generation = 0;

-- The inputs that runs went on from (`return ContinueAs(…)`), numbered from 1, and when they were over.
create table generations (
  tenant     text not null,
  run        blob not null,
  generation integer not null,
  input      text not null,
  attempt    integer not null,  -- the last one that had it
  seq        integer not null,  -- of run.continued
  at         integer not null,
  primary key (tenant, run, generation)
) strict, without rowid;

-- Signals, in the order in which they came: number is that of their event.
create table signals (
  tenant   text not null,
  run      blob not null,
  number   integer not null,
  name     text not null,
  key      text,
  payload  text not null,
  at       integer not null,
  taken_by text,  -- the step that it answered
  generation integer not null default 0,  -- that of this step, once the run went on from it
  primary key (tenant, run, number)
) strict, without rowid;

create unique index signals_by_key on signals (tenant, run, name, key) where key is not null;
create index signals_untaken on signals (tenant, run, name, number) where taken_by is null;

-- The events that no record, lease or attempt tells of.
create table event_rows (
  tenant  text not null,
  subject blob not null,
  seq     integer not null,
  type    text not null,
  at      integer not null,
  attempt integer not null,
  data    text,
  primary key (tenant, subject, seq)
) strict, without rowid;

-- The feed: every event of every subject, in the order (era, n, place in the page). There is one
-- writer at a time, so n is the order of the commits. A page has what one statement wrote of one
-- tenant, type, seq and attempt; its subjects are the 16 bytes of each id, one after another. Its data
-- is that of each of them.
create table pages (
  n        integer primary key autoincrement,  -- no number is used twice, also if pages are deleted
  era      integer not null default 1,
  at       integer not null,
  tenant   text not null,
  type     text not null,
  seq      integer not null,
  attempt  integer not null,
  subjects blob not null,
  data     text
) strict;

-- Whatever is written here is in the feed: no writer can forget it.
create trigger event_rows_paged after insert on event_rows
begin
  insert into pages (at, tenant, type, seq, attempt, subjects, data)
  values (new.at, new.tenant, new.type, new.seq, new.attempt, new.subject, new.data);
end;

create table failures (
  tenant       text not null,
  id           blob not null,
  job          text not null,
  queue        text not null,
  status       text not null check (status in ('failed', 'canceled')),
  failure      text,
  error_type   text,
  fingerprint  text,
  at           integer not null,
  discarded_at integer,
  primary key (tenant, id)
) strict, without rowid;

create index failures_by_status on failures (tenant, status, id);

create table run_keys (
  tenant     text not null,
  job        text not null,
  key        text not null,
  run        blob not null,
  input_hash text not null,
  expires_at integer,
  live       integer not null default 0,  -- free again when its run has ended
  primary key (tenant, job, key)
) strict, without rowid;

create table run_tags (
  tenant text not null,
  tag    text not null,
  id     blob not null,
  primary key (tenant, tag, id)
) strict, without rowid;

create table progress (
  tenant   text not null,
  id       blob not null,
  fraction real,
  message  text,
  at       integer not null,
  detail   text,  -- units, and the phases of a pipeline
  primary key (tenant, id)
) strict, without rowid;

-- All events, in the order of columns that every reader expects. Each branch finds those of one
-- subject by a key, and in the order of seq. The casts give the columns of all branches one type:
-- otherwise SQLite collects and sorts the whole history before it returns the first row.
create view events (tenant, subject, seq, type, at, attempt, data) as
select tenant, subject, seq, type, at, attempt, data from event_rows
union all
select tenant, run, seq,
       cast(case when state = 'done' and kind = 'phase' then 'phase.completed'
                 when state = 'done' then 'step.succeeded' when state = 'failed' then 'step.failed'
                 else 'step.timed_out' end as text),
       at, attempt, cast(json_object('step', path) as text)
  from steps where seq is not null
union all
select r.tenant, r.id, cast(1 as integer), cast('run.enqueued' as text), r.created_at,
       cast(0 as integer), cast(null as text)
  from runs r
 where not exists (select 1 from event_rows e
                    where e.tenant = r.tenant and e.subject = r.id and e.seq = 1)
union all
select tenant, run, started_seq, cast('run.started' as text), started_at, attempt,
       cast(null as text)
  from attempt_rows
union all
select tenant, run, ended_seq, cast('run.succeeded' as text), finished_at, attempt,
       cast(null as text)
  from attempt_rows where outcome = 'succeeded'
union all
select tenant, id, started_seq, cast('run.started' as text), started_at, attempt,
       cast(null as text)
  from leases
union all
select tenant, id, started_seq, cast('run.started' as text), started_at, attempt,
       cast(null as text)
  from runs where status = 'succeeded'
union all
select tenant, id, seq, cast('run.succeeded' as text), finished_at, attempt, cast(null as text)
  from runs where status = 'succeeded';

-- All attempts that have ended.
create view attempts (tenant, run, attempt, token, worker, outcome, started_at, finished_at, error,
                      version) as
select tenant, run, attempt, token, worker, outcome, started_at, finished_at, error, version
  from attempt_rows
union all
select tenant, id, attempt, token,
       cast((select name from worker_names w where w.worker_no = runs.worker_no) as text), status,
       started_at, finished_at, cast(null as text), attempt_version
  from runs where status = 'succeeded';
