-- Shards stop, go on and end with their batch. domain/batch.py has the protocol.
--
-- batches.forced   the batch was terminated: its shards are, too, whatever they do.
-- children.paused  the shard was paused because its batch was, and goes on with it. One that an operator paused
--                  before has no mark, and stays paused.

alter table batches add column forced integer not null default 0;
alter table children add column paused integer not null default 0;

create index children_paused on children (tenant, parent) where paused = 1;

-- Shards of a batch that has failed are to end: nobody waits for them.
create trigger note_failed_batch after update of status on runs
when new.status = 'failed' and new.links & 2
begin
  insert into wakes (tenant, run)
  select tenant, run from batches where tenant = new.tenant and run = new.id;
end;
