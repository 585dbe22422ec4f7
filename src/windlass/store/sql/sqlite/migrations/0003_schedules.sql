-- Schedules: rules that make runs, what became of their slots, and which of their runs may live.
--
-- schedules        moves from one next_slot to the next by compare-and-set.
-- schedule_slots   its primary key is the promise of one run per slot. The run of a slot that
--                  waits for its turn is kept in pending, as it was decided.
-- schedule_live    the runs that overlap is judged by: every live run of a schedule has a row. It
--                  is written where a run begins to live (a slot fires, an operator retries) and
--                  deleted by whoever next looks and finds the run ended. So the end of a run,
--                  which is the hot path, touches nothing here, and a look costs what is live.

create table schedules (
  tenant     text not null,
  id         blob not null check (length(id) = 16),
  key        text,
  job        text not null,
  rule       text not null,
  input      text not null,
  options    text not null,
  overlap    text not null check (overlap in ('allow', 'skip', 'queue', 'cancel_running')),
  enabled    integer not null,
  origin     text not null check (origin in ('code', 'runtime')),
  next_slot  integer,
  last_slot  integer,
  fired      integer not null default 0,
  missed     integer not null default 0,
  skipped    integer not null default 0,
  version    integer not null default 1,
  seq        integer not null,
  created_at integer not null,
  updated_at integer not null,
  primary key (tenant, id),
  check (enabled or next_slot is null)
) strict;

create unique index schedules_by_key on schedules (tenant, key) where key is not null;
create index schedules_by_next on schedules (next_slot) where enabled and next_slot is not null;

create table schedule_slots (
  tenant   text not null,
  schedule blob not null,
  slot     integer not null,
  outcome  text not null check (outcome in ('fired', 'missed', 'skipped', 'waiting')),
  run      blob,
  at       integer not null,
  pending  text,
  primary key (tenant, schedule, slot),
  check ((outcome = 'fired') = (run is not null)),
  check ((outcome = 'waiting') = (pending is not null))
) strict, without rowid;

create index schedule_slots_waiting on schedule_slots (tenant, schedule, slot)
  where outcome = 'waiting';

create table schedule_live (
  tenant   text not null,
  schedule blob not null,
  slot     integer not null,
  run      blob not null,
  primary key (tenant, schedule, slot, run)
) strict, without rowid;

-- Schedules that are deleted and whose record of slots is longer than one transaction should
-- delete: the rest of it goes piece by piece, whoever comes next goes on with it.
create table schedule_gone (
  tenant   text not null,
  schedule blob not null,
  primary key (tenant, schedule)
) strict, without rowid;

alter table runs add column schedule blob;
alter table runs add column slot integer;

-- Only runs of schedules pay for it.
create index runs_by_schedule on runs (tenant, schedule, id) where schedule is not null;
