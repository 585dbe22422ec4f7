-- Retention: domain/retention.py has the protocol.
--
-- chores    what janitors look after, each with the time when it is due and a mark of how far it was done:
--           an id for walks over runs, a place for the feed. lapping: the walk goes to the last id, and not
--           only to those that are old enough. terms: the lengths that the walk began with.
--
-- A run that becomes stale is paged by the janitor. So that a record of it may be written later, when a stale
-- run is reopened, the trigger leaves run.stale out.

alter table jobs add column retention text;  -- how long its runs are kept

create table chores (
  kind    text not null,
  tenant  text not null default '',
  job     text not null default '',
  due_at  integer not null default 0,
  lap_at  integer not null default 0,  -- when the walk last began at the first id
  lapping integer not null default 1,
  terms   text,
  mark    text,
  primary key (kind, tenant, job)
) strict, without rowid;

create index chores_by_due on chores (due_at);

-- Of a run that is gone, whose key has time left: what a repeated enqueue answers with.
alter table run_keys add column run_status text;
alter table run_keys add column run_created_at integer;
alter table run_keys add column run_scheduled_for integer;

create index run_keys_of_gone on run_keys (tenant, run) where run_status is not null;

-- Only keys with a key_ttl pay for it.
create index run_keys_by_expiry on run_keys (expires_at) where expires_at is not null;

drop trigger event_rows_paged;

create trigger event_rows_paged after insert on event_rows
when new.type <> 'run.stale'
begin
  insert into pages (at, tenant, type, seq, attempt, subjects, data)
  values (new.at, new.tenant, new.type, new.seq, new.attempt, new.subject, new.data);
end;

drop view events;

-- As before, with a branch for a success that has become stale: seq is that of the success.
create view events (tenant, subject, seq, type, at, attempt, data) as
select tenant, subject, seq, type, at, attempt, data from event_rows
union all
select tenant, run, seq,
       cast(case when state = 'done' and kind = 'phase' then 'phase.completed'
                 when state = 'done' then 'step.succeeded' when state = 'failed' then 'step.failed'
                 else 'step.timed_out' end as text),
       at, attempt, cast(json_object('step', path) as text)
  from steps where seq is not null
union all
select r.tenant, r.id, cast(1 as integer), cast('run.enqueued' as text), r.created_at,
       cast(0 as integer), cast(null as text)
  from runs r
 where not exists (select 1 from event_rows e
                    where e.tenant = r.tenant and e.subject = r.id and e.seq = 1)
union all
select tenant, run, started_seq, cast('run.started' as text), started_at, attempt,
       cast(null as text)
  from attempt_rows
union all
select tenant, run, ended_seq, cast('run.succeeded' as text), finished_at, attempt,
       cast(null as text)
  from attempt_rows where outcome = 'succeeded'
union all
select tenant, id, started_seq, cast('run.started' as text), started_at, attempt,
       cast(null as text)
  from leases
union all
select tenant, id, started_seq, cast('run.started' as text), started_at, attempt,
       cast(null as text)
  from runs where status = 'succeeded'
union all
select tenant, id, seq, cast('run.succeeded' as text), finished_at, attempt, cast(null as text)
  from runs where status = 'succeeded'
union all
select tenant, id, cast(seq + 1 as integer), cast('run.stale' as text), stale_at, attempt,
       cast(null as text)
  from runs where status = 'succeeded' and stale_at is not null;
