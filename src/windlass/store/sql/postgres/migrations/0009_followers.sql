-- Followers: runs that start when other runs have ended. domain/follower.py has the protocol.
--
-- follows    a row for each run that a run comes after, for as long as the record of the follower is there.
--            Its outcome is null until that run has ended; the first end counts. The triggers of
--            migrations/0004_children.sql write it.
--
-- runs.links has two more bits: 4, others come after it; 8, it comes after others.

create table windlass.follows (
  tenant   text not null,
  id       uuid not null,
  n        integer not null,
  awaited  uuid not null,
  mode     text not null check (mode in ('cancel', 'run')),  -- if the awaited run has not succeeded
  argument text,  -- of the follower, that takes the result
  outcome  text check (outcome in ('succeeded', 'failed', 'canceled', 'deleted')),
  primary key (tenant, id, n)
);

create index follows_by_awaited on windlass.follows (awaited, tenant, id)
  where awaited is not null;  -- not for a lookup by (tenant, id)
