-- Shards stop, go on and end with their batch. domain/batch.py has the protocol.
--
-- batches.forced   the batch was terminated: its shards are, too, whatever they do.
-- children.paused  the shard was paused because its batch was, and goes on with it. One that an operator paused
--                  before has no mark, and stays paused.

alter table windlass.batches add column forced boolean not null default false;
alter table windlass.children add column paused boolean not null default false;

create index children_paused on windlass.children (parent, tenant) where paused;
