-- Queues and jobs from which nothing is started for now: see domain/pause.py.

create table windlass.pauses (
  tenant text not null,
  kind   text not null check (kind in ('queue', 'job')),
  name   text not null,
  since  timestamptz not null,
  actor  text not null,
  reason text,
  primary key (tenant, kind, name)
);
