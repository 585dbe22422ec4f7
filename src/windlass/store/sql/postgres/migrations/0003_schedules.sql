-- Schedules: rules that make runs, what became of their slots, and which of their runs may live.
--
-- schedules        moves from one next_slot to the next by compare-and-set under its row lock,
--                  which every change to the three tables here takes first.
-- schedule_slots   its primary key is the promise of one run per slot. The run of a slot that
--                  waits for its turn is kept in pending, as it was decided.
-- schedule_live    the runs that overlap is judged by: every live run of a schedule has a row. It
--                  is written where a run begins to live (a slot fires, an operator retries) and
--                  deleted by whoever next looks and finds the run ended. So the end of a run,
--                  which is the hot path, touches nothing here, and a look costs what is live.

create table windlass.schedules (
  tenant     text not null,
  id         uuid not null,
  key        text,
  job        text not null,
  rule       json not null,
  input      json not null,
  options    json not null,
  overlap    text not null check (overlap in ('allow', 'skip', 'queue', 'cancel_running')),
  enabled    boolean not null,
  origin     text not null check (origin in ('code', 'runtime')),
  next_slot  timestamptz,
  last_slot  timestamptz,
  fired      bigint not null default 0,
  missed     bigint not null default 0,
  skipped    bigint not null default 0,
  version    bigint not null default 1,
  seq        integer not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant, id),
  check (enabled or next_slot is null)
);

create unique index schedules_by_key on windlass.schedules (tenant, key) where key is not null;
create index schedules_by_next on windlass.schedules (next_slot)
  where enabled and next_slot is not null;

create table windlass.schedule_slots (
  tenant   text not null,
  schedule uuid not null,
  slot     timestamptz not null,
  outcome  text not null check (outcome in ('fired', 'missed', 'skipped', 'waiting')),
  run      uuid,
  at       timestamptz not null,
  pending  json,
  primary key (tenant, schedule, slot),
  check ((outcome = 'fired') = (run is not null)),
  check ((outcome = 'waiting') = (pending is not null))
);

create index schedule_slots_waiting on windlass.schedule_slots (tenant, schedule, slot)
  where outcome = 'waiting';

create table windlass.schedule_live (
  tenant   text not null,
  schedule uuid not null,
  slot     timestamptz not null,
  run      uuid not null,
  primary key (tenant, schedule, slot, run)
);

-- Schedules that are deleted and whose record of slots is longer than one transaction should
-- delete: the rest of it goes piece by piece, whoever comes next goes on with it.
create table windlass.schedule_gone (
  tenant   text not null,
  schedule uuid not null,
  primary key (tenant, schedule)
);

alter table windlass.runs add column schedule uuid, add column slot timestamptz;

-- Only runs of schedules pay for it. The predicate keeps it from a lookup by (tenant, id).
create index runs_by_schedule on windlass.runs (schedule, tenant, id) where schedule is not null;
