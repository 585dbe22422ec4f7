-- The core: jobs, runs, their positions, leases, history.
--
-- A live run has exactly one row in timers, ready or leases; a finished run has none,
-- and runs.status is set. Same tables, columns and names as on PostgreSQL. What differs:
-- ids are the 16 bytes of the UUID, times are microseconds since 1970 in UTC, JSON and
-- lists are text. Small rows that are found by their whole key live in the key's own tree
-- (without rowid); runs, whose inputs and results may be large, and events, whose rowid is
-- the order of the feed, do not. There are no foreign keys on the hot tables: the program
-- keeps them right, and the history checker of the fault tests proves it.

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
  started_at    integer,
  finished_at   integer,
  stale_at      integer,
  primary key (tenant, id),
  check ((status is null) = (finished_at is null)),
  check ((status = 'failed') = (failure is not null) or status is null)
) strict;

create index runs_by_job on runs (tenant, job, id);

create table timers (
  tenant      text not null,
  id          blob not null,
  job         text not null,
  queue       text not null,
  rank        integer not null,
  due_at      integer not null,
  why         text not null check (why in ('delay', 'backoff', 'snooze')),
  attempt     integer not null,
  failures    integer not null,
  crash_count integer not null,
  token       integer not null,
  seq         integer not null,
  expires_at  integer,
  deadline_at integer,
  primary key (tenant, id)
) strict, without rowid;

create index timers_by_due on timers (due_at);
create index timers_by_expiry on timers (expires_at) where expires_at is not null;
create index timers_by_deadline on timers (deadline_at) where deadline_at is not null;
-- What backs off is found without reading what is scheduled.
create index timers_in_backoff on timers (job, queue) where why = 'backoff';

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
  worker      text not null,
  claim_no    integer not null,
  started_at  integer not null,
  attempt     integer not null,
  failures    integer not null,
  crash_count integer not null,
  token       integer not null,
  seq         integer not null,
  deadline_at integer,
  intent      text check (intent in ('cancel')),
  reason      text,
  primary key (tenant, id)
) strict, without rowid;

create index leases_by_worker on leases (worker);
create index leases_by_deadline on leases (deadline_at) where deadline_at is not null;

create table workers (
  id          text primary key,
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

-- When somebody swept, for those who judge by time: an outage is no crash of the workers. Only the
-- latest sweep is kept, and those that ended a gap (nobody had swept since gap_from) that still
-- counts.
create table sweeps (
  at       integer not null,
  gap_from integer
) strict;

create table attempts (
  tenant      text not null,
  run         blob not null,
  attempt     integer not null,
  token       integer not null,
  worker      text not null,
  outcome     text not null check (outcome in ('succeeded', 'failed', 'timeout', 'snoozed',
                                               'canceled', 'interrupted', 'crashed')),
  started_at  integer not null,
  finished_at integer not null,
  error       text,
  primary key (tenant, run, attempt)
) strict, without rowid;

create table events (
  n       integer primary key,  -- the order of the feed: there is one writer at a time
  tenant  text not null,
  subject blob not null,
  seq     integer not null,
  type    text not null,
  at      integer not null,
  attempt integer not null,
  data    text,
  unique (tenant, subject, seq)
) strict;

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
  primary key (tenant, id)
) strict, without rowid;
