-- Children: runs that a run starts and waits for. domain/child.py has the protocol.
--
-- children   a row for each child, for as long as its record is there: which step of which run has
--            started it (parent, generation, path), and its place among those that the step started.
--            Its state is ended if and only if the child has ended: triggers keep it so, whoever ends,
--            reopens or deletes the run.
-- wakes      runs that are to be looked at, because a child has ended, or because they were canceled and
--            have children.

alter table runs add column links integer;  -- 1: it is a child; 2: it has children; null: neither

create table children (
  tenant     text not null,
  id         blob not null,
  parent     blob not null,
  root       blob not null,  -- the run that the whole tree has grown from
  generation integer not null default 0,
  path       text not null,
  n          integer not null,
  state      text not null check (state in ('held', 'live', 'ended')),
  detached   integer not null default 0,  -- its parent began anew without it: it is to end
  primary key (tenant, id)
) strict, without rowid;

create unique index children_by_step on children (tenant, parent, generation, path, n);
create index children_live on children (tenant, parent, generation, path, state, n, detached)
  where state <> 'ended';

create table wakes (
  n      integer primary key autoincrement,
  tenant text not null,
  run    blob not null
) strict;

create trigger note_child after update of status on runs
when new.links is not null and (old.status is null) <> (new.status is null)
begin
  insert into wakes (tenant, run)
  select tenant, parent from children
   where new.status is not null and tenant = new.tenant and id = new.id and state <> 'ended';
  update children set state = iif(new.status is null, 'live', 'ended'), detached = 0
   where tenant = new.tenant and id = new.id;
  insert into wakes (tenant, run)
  select new.tenant, new.id where new.status = 'canceled' and new.links & 2;
end;

create trigger note_deleted_child after delete on runs
when old.links is not null
begin
  insert into wakes (tenant, run)
  select tenant, parent from children
   where tenant = old.tenant and id = old.id and state <> 'ended';
  update children set state = 'ended' where tenant = old.tenant and id = old.id;
end;

-- What a step has started goes where its step goes. Of one that is tried anew, what succeeded stays.
create trigger move_children after update of generation on steps
when old.generation <> new.generation
begin
  update children set generation = new.generation
   where tenant = old.tenant and parent = old.run and generation = old.generation
     and path = old.path
     and (new.generation > 0
          or not exists (select 1 from runs r where r.tenant = children.tenant
                            and r.id = children.id and r.status = 'succeeded'));
end;
