-- Children: runs that a run starts and waits for. domain/child.py has the protocol.
--
-- children   a row for each child, for as long as its record is there: which step of which run has
--            started it (parent, generation, path), and its place among those that the step started.
--            Its state is ended if and only if the child has ended: triggers keep it so, whoever ends,
--            reopens or deletes the run.
-- wakes      runs that are to be looked at, because a child has ended, or because they were canceled and
--            have children. Rows are added, and taken by windlass.tend; nobody waits for one.

alter table windlass.runs add column links smallint;  -- 1: it is a child; 2: it has children; null: neither

create table windlass.children (
  tenant     text not null,
  id         uuid not null,
  parent     uuid not null,
  root       uuid not null,  -- the run that the whole tree has grown from
  generation integer not null default 0,
  path       text collate "C" not null,
  n          integer not null,
  state      text not null check (state in ('held', 'live', 'ended')),
  detached   boolean not null default false,  -- its parent began anew without it: it is to end
  primary key (tenant, id)
);

create unique index children_by_step on windlass.children (parent, tenant, generation, path, n)
  where parent is not null;  -- not for a lookup by (tenant, id)
create index children_live on windlass.children (parent, tenant, generation, path, state, n)
  where state <> 'ended';

create table windlass.wakes (
  n      bigint generated always as identity primary key,
  tenant text not null,
  run    uuid not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- As for page_events: the functions of the triggers are in functions/037_children.sql.
create function windlass.note_child() returns trigger
language plpgsql as 'begin return null; end';

create trigger note_child
  after update of status on windlass.runs
  for each row when (new.links is not null and (old.status is null) <> (new.status is null))
  execute function windlass.note_child();

create trigger note_deleted_child
  after delete on windlass.runs
  for each row when (old.links is not null)
  execute function windlass.note_child();

create function windlass.move_children() returns trigger
language plpgsql as 'begin return null; end';

create trigger move_children
  after update of generation on windlass.steps
  for each row when (old.generation <> new.generation)
  execute function windlass.move_children();
