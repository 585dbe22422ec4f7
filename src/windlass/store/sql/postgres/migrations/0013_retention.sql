-- Retention: domain/retention.py has the protocol.
--
-- chores    what janitors look after, each with the time when it is due and a mark of how far it was done:
--           an id for walks over runs, a place for the feed. lapping: the walk goes to the last id, and not
--           only to those that are old enough. terms: the lengths that the walk began with. Whoever does a
--           chore has its row locked; others skip it.

alter table windlass.jobs add column retention json;  -- how long its runs are kept

create table windlass.chores (
  kind    text not null,
  tenant  text not null default '',
  job     text not null default '',
  due_at  timestamptz not null default 'epoch',
  lap_at  timestamptz not null default 'epoch',  -- when the walk last began at the first id
  lapping boolean not null default true,
  terms   text,
  mark    text,
  primary key (kind, tenant, job)
) with (fillfactor = 50);

insert into windlass.chores (kind) values ('jobs'), ('feed'), ('audit'), ('slots'), ('keys');

-- Of a run that is gone, whose key has time left: what a repeated enqueue answers with.
alter table windlass.run_keys
  add column run_status text, add column run_created_at timestamptz,
  add column run_scheduled_for timestamptz;

create index run_keys_of_gone on windlass.run_keys (run, tenant) where run_status is not null;

-- Only keys with a key_ttl pay for it.
create index run_keys_by_expiry on windlass.run_keys (expires_at) where expires_at is not null;
