-- Followers: runs that start when other runs have ended. domain/follower.py has the protocol.
--
-- follows    a row for each run that a run comes after, for as long as the record of the follower is there.
--            Its outcome is null until that run has ended; the first end counts.
--
-- runs.links has two more bits: 4, others come after it; 8, it comes after others.

create table follows (
  tenant   text not null,
  id       blob not null,
  n        integer not null,
  awaited  blob not null,
  mode     text not null check (mode in ('cancel', 'run')),  -- if the awaited run has not succeeded
  argument text,  -- of the follower, that takes the result
  outcome  text check (outcome in ('succeeded', 'failed', 'canceled', 'deleted')),
  primary key (tenant, id, n)
) strict, without rowid;

create index follows_by_awaited on follows (tenant, awaited, id);

create trigger note_awaited after update of status on runs
when new.links & 4 and old.status is null and new.status is not null
begin
  insert into wakes (tenant, run)
  select tenant, id from follows
   where tenant = new.tenant and awaited = new.id and outcome is null;
  update follows set outcome = new.status
   where tenant = new.tenant and awaited = new.id and outcome is null;
end;

create trigger note_deleted_awaited after delete on runs
when old.links & 12
begin
  delete from follows where tenant = old.tenant and id = old.id;
  insert into wakes (tenant, run)
  select tenant, id from follows
   where tenant = old.tenant and awaited = old.id and outcome is null;
  update follows set outcome = 'deleted'
   where tenant = old.tenant and awaited = old.id and outcome is null;
end;
