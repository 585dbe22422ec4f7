-- The core: jobs, runs, their positions, leases, history.
--
-- A live run has exactly one row in timers, ready or leases; a finished run has none,
-- and runs.status is set. Completion changes no indexed column of runs and finds room in
-- the page (fillfactor), so it is a HOT update. The position tables are small and churn:
-- vacuum visits them early and often. They have no foreign keys; the functions keep them
-- right, and the history checker of the fault tests proves it.
--
-- What the record or the lease already says is written nowhere else. The views events and attempts
-- (functions/395_history.sql) put a run's history together from the record, the lease, event_rows and
-- attempt_rows.

create table windlass.jobs (
  tenant        text not null,
  name          text not null,
  queue         text not null,
  priority      integer not null default 0,
  max_attempts  integer not null default 5,
  timeout       double precision,
  retry         json not null default '{}',
  parameters    json,
  default_input json,
  defaults      json,
  on_failure    json,  -- who handles the failures of its runs
  phases        json,  -- the names of a pipeline's phases, in order
  version       text,
  created_at    timestamptz not null,
  updated_at    timestamptz not null,
  primary key (tenant, name)
);

create table windlass.runs (
  tenant        text not null,
  id            uuid not null,
  job           text not null,
  job_version   text,
  queue         text not null,
  priority      integer not null,
  input         json not null,
  options       json,
  key           text,
  tags          text[],
  trace         text,
  metadata      json,
  enqueued_by   uuid,  -- the run in whose handler this one was enqueued
  created_at    timestamptz not null,
  scheduled_for timestamptz not null,
  expires_at    timestamptz,
  deadline_at   timestamptz,
  -- written at the end; null while the run is live
  status        text check (status in ('succeeded', 'failed', 'canceled')),
  failure       text check (failure in
                  ('exhausted', 'fatal', 'timeout', 'crashed', 'expired', 'deadline',
                   'nondeterminism')),
  result        json,
  error         json,
  reason        text,
  attempt       integer,
  failures      integer,
  crash_count   integer,
  token         bigint,
  seq           integer,
  started_seq   integer,  -- of the last attempt, the one that ended the run if one did
  started_at    timestamptz,
  finished_at   timestamptz,
  worker_no     integer,
  attempt_version text,  -- of the job file that the attempt ran, if its worker told
  stale_at      timestamptz,
  primary key (tenant, id),
  check ((status is null) = (finished_at is null)),
  check ((status = 'failed') = (failure is not null) or status is null)
) with (fillfactor = 40, autovacuum_vacuum_insert_scale_factor = 0.2);

-- Not for a lookup by (tenant, id), see README.md: one that says nothing of the job cannot use it.
create index runs_by_job on windlass.runs (job, tenant, id) where job is not null;
-- Only runs that have a key pay for it.
create index runs_by_key on windlass.runs (key, tenant, id) where key is not null;

create table windlass.timers (
  tenant      text not null,
  id          uuid not null,
  job         text not null,
  queue       text not null,
  rank        integer not null,
  due_at      timestamptz not null,
  why         text not null check (why in ('delay', 'backoff', 'snooze', 'sleep', 'wait', 'held',
                                                   'paused')),
  attempt     integer not null,
  failures    integer not null,
  crash_count integer not null,
  token       bigint not null,
  seq         integer not null,
  expires_at  timestamptz,
  deadline_at timestamptz,
  waits       text[],  -- the paths of the steps in which it sleeps or waits
  -- of one that is paused: what its timer was before; nothing if it was ready, or left a lease for its queue
  was_why     text,
  was_due_at  timestamptz,
  primary key (tenant, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create index timers_by_due on windlass.timers (due_at);
create index timers_by_expiry on windlass.timers (expires_at) where expires_at is not null;
create index timers_by_deadline on windlass.timers (deadline_at) where deadline_at is not null;
-- What backs off is found without reading what is scheduled.
create index timers_in_backoff on windlass.timers (job, queue) where why = 'backoff';
create index timers_waiting on windlass.timers (why, tenant, id) where why in ('wait', 'paused');

create table windlass.ready (
  tenant       text not null,
  id           uuid not null,
  job          text not null,
  queue        text not null,
  rank         integer not null,  -- minus the priority: smaller is more urgent
  ready_at     timestamptz not null,
  attempt      integer not null,
  failures     integer not null,
  crash_count  integer not null,
  token        bigint not null,
  seq          integer not null,
  expires_at   timestamptz,
  deadline_at  timestamptz,
  published_at timestamptz,
  primary key (tenant, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index ready_to_claim on windlass.ready (queue, rank, ready_at, id)
  where queue is not null;  -- not for a lookup by (tenant, id)
create index ready_by_expiry on windlass.ready (expires_at) where expires_at is not null;
create index ready_by_deadline on windlass.ready (deadline_at) where deadline_at is not null;

create table windlass.leases (
  tenant      text not null,
  id          uuid not null,
  job         text not null,
  queue       text not null,
  rank        integer not null,
  worker_no   integer not null,
  claim_no    bigint not null,
  started_at  timestamptz not null,
  token       bigint not null,
  attempt     integer not null,
  failures    integer not null,
  crash_count integer not null,
  seq         integer not null,
  started_seq integer not null,  -- seq as the claim left it: that of run.started
  deadline_at timestamptz,
  intent      text check (intent in ('cancel', 'pause')),
  reason      text,
  primary key (tenant, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index leases_by_worker on windlass.leases (worker_no);
create index leases_by_deadline on windlass.leases (deadline_at) where deadline_at is not null;

-- A run on its way from one position to the next, or to its end: see windlass.make_moves.
create type windlass.move as (
  -- what every position carries, and hands on
  tenant text, id uuid, job text, queue text, rank integer,
  attempt integer, failures integer, crash_count integer, token bigint, seq integer,
  expires_at timestamptz, deadline_at timestamptz,
  -- where it comes from: its status; since when it is ready, or when and for what it waits; the lease
  -- that it leaves
  status text, at timestamptz, why text, worker_no integer, started_at timestamptz,
  started_seq integer, intent text,
  -- what happens to it, and what is known of that; `at` may be another time by then
  verb text, counts boolean, timed_out boolean, version text,
  failure text, reason text, result json, error json, data json,
  -- the steps in which it sleeps or waits
  waits text[],
  -- of one that is paused: what its timer was before
  was_why text, was_due_at timestamptz
);

-- What a listing asks for, see windlass.find_ids; null: anything. Statuses are those that may match.
create type windlass.run_filter as (
  tenant text, statuses text[], job text, queue text, tag text, key text, schedule uuid,
  worker text, failure text, error text, dead boolean,
  created_from timestamptz, created_to timestamptz,
  finished_from timestamptz, finished_to timestamptz,
  before uuid, "limit" integer
);

-- A worker's number stands for it in leases and records; its name is kept here when it is gone. No
-- number is used twice.
create table windlass.worker_names (
  worker_no integer generated always as identity primary key,
  name      text not null
);

create index worker_names_by_name on windlass.worker_names (name);

create table windlass.workers (
  id          text primary key,
  worker_no   integer not null,
  host        text not null,
  pid         integer not null,
  version     text not null,
  queues      text[],
  jobs        text[] not null,
  seats       integer not null,
  started_at  timestamptz not null,
  alive_until timestamptz not null,
  renewed_at  timestamptz,  -- alive_until alone does not tell how long its lease is
  -- while its event loop does not answer: since when, and whose handler blocks it, if known
  blocked_since  timestamptz,
  blocked_tenant text,
  blocked_run    text
) with (fillfactor = 50);

create unique index workers_by_no on windlass.workers (worker_no);

-- When somebody swept, for those who judge by time: an outage is no crash of the workers. Only the
-- latest sweep is kept, and those that ended a gap (nobody had swept since gap_from) that still
-- counts. A row is added, never changed: a sweep in a transaction that stays open blocks no other.
create table windlass.sweeps (
  at       timestamptz not null,
  gap_from timestamptz
);

create index sweeps_by_time on windlass.sweeps (at);

-- The attempts that their run's record does not tell of: all but the last one of a run that succeeded.
create table windlass.attempt_rows (
  tenant      text not null,
  run         uuid not null,
  attempt     integer not null,
  token       bigint not null,
  worker      text not null,
  outcome     text not null check (outcome in ('succeeded', 'failed', 'timeout', 'snoozed', 'waited',
                                               'continued', 'canceled', 'interrupted', 'crashed')),
  started_seq integer not null,
  ended_seq   integer not null,
  started_at  timestamptz not null,
  finished_at timestamptz not null,
  error       json,
  version     text,
  primary key (tenant, run, attempt)
);

-- What runs remember of their steps, see domain/step.py. Those of the inputs that a run went on from
-- have the number of their generation; 0 is the run's own. Those that had failed when somebody reopened
-- the run have that of its last attempt, negative: they are tried anew.
create table windlass.steps (
  tenant     text not null,
  run        uuid not null,
  generation integer not null default 0,
  path       text collate "C" not null,
  kind       text not null,
  state      text not null check (state in ('retrying', 'waiting', 'done', 'failed', 'timed_out')),
  seq        integer,  -- of the event that ended it
  attempt    integer not null,
  failures   integer not null,
  started_at timestamptz not null,
  at         timestamptz not null,
  until      timestamptz,
  input      text,
  signal     text,  -- the name of the signal that it waits for
  value      json,
  error      json,
  primary key (tenant, run, generation, path),
  check ((seq is null) = (state in ('retrying', 'waiting')))
);

-- The approvals that are asked for, see domain/approval.py.
create index steps_asking on windlass.steps (tenant, run, path)
  where kind = 'approval' and state = 'waiting' and generation = 0;

-- The inputs that runs went on from (`return ContinueAs(…)`), numbered from 1, and when they were over.
create table windlass.generations (
  tenant     text not null,
  run        uuid not null,
  generation integer not null,
  input      json not null,
  attempt    integer not null,  -- the last one that had it
  seq        integer not null,  -- of run.continued
  at         timestamptz not null,
  primary key (tenant, run, generation)
);

-- Signals, in the order in which they came: number is that of their event.
create table windlass.signals (
  tenant   text not null,
  run      uuid not null,
  number   integer not null,
  name     text not null,
  key      text,
  payload  json not null,
  at       timestamptz not null,
  taken_by text,  -- the step that it answered
  generation integer not null default 0,  -- that of this step, once the run went on from it
  primary key (tenant, run, number)
);

create unique index signals_by_key on windlass.signals (key, tenant, run, name) where key is not null;

-- The events that no record, lease or attempt tells of.
create table windlass.event_rows (
  tenant  text not null,
  subject uuid not null,
  seq     integer not null,
  type    text not null,
  at      timestamptz not null,
  attempt integer not null,
  data    json,
  primary key (tenant, subject, seq)
);

-- The feed: every event of every subject, in the order (era, moment, n, place in the page). A page has
-- what one statement wrote of one tenant, type, seq and attempt, and the data of these events if they
-- have any.
--
-- moment is by default the number of the writing transaction, or of the last one that had begun when the
-- page was written: whatever depends on a committed page has a later place (its moment is not smaller,
-- and n is larger). A page may be read once no transaction up to its moment runs any more: nothing that
-- is committed later has an earlier place.
create table windlass.pages (
  moment   bigint not null,
  n        bigint generated always as identity,
  at       timestamptz not null,
  era      integer not null default 1,
  seq      integer not null,
  attempt  integer not null,
  tenant   text not null,
  type     text not null,
  subjects uuid[] not null,
  data     json[],
  primary key (era, moment, n)
);

alter table windlass.pages alter column subjects set storage external;  -- ids do not compress

-- What is written to event_rows is paged by a trigger, so that no writer can forget. Its function is in
-- functions/035_pages.sql; here it has only its name. (A trigger cannot be replaced while somebody has
-- an event in an open transaction.)
create function windlass.page_events() returns trigger
language plpgsql as 'begin return null; end';

create trigger page_events
  after insert on windlass.event_rows
  referencing new table as fresh
  for each statement execute function windlass.page_events();

create table windlass.failures (
  tenant       text not null,
  id           uuid not null,
  job          text not null,
  queue        text not null,
  status       text not null check (status in ('failed', 'canceled')),
  failure      text,
  error_type   text,
  fingerprint  text,
  at           timestamptz not null,
  discarded_at timestamptz,
  primary key (tenant, id)
);

create index failures_by_status on windlass.failures (status, tenant, id)
  where status is not null;  -- not for a lookup by (tenant, id)

create table windlass.run_keys (
  tenant     text not null,
  job        text not null,
  key        text not null,
  run        uuid not null,
  input_hash text not null,
  expires_at timestamptz,
  live       boolean not null default false,  -- free again when its run has ended
  primary key (tenant, job, key)
);

create table windlass.run_tags (
  tenant text not null,
  tag    text not null,
  id     uuid not null,
  primary key (tenant, tag, id)
);

create table windlass.progress (
  tenant   text not null,
  id       uuid not null,
  fraction double precision,
  message  text,
  at       timestamptz not null,
  detail   json,  -- units, and the phases of a pipeline
  primary key (tenant, id)
) with (fillfactor = 50);
