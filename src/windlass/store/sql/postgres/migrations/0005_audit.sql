-- The audit log: who did what to which run, when and why. Rows are added by the functions that do it, in the
-- same transaction, and never changed.

create table windlass.audit (
  n       bigint generated always as identity,
  tenant  text not null,
  at      timestamptz not null,
  actor   text not null,
  verb    text not null,
  kind    text not null,  -- what subject names
  subject text not null,
  reason  text,
  detail  json,
  primary key (tenant, n)
);

create index audit_by_subject on windlass.audit (subject, tenant, n)
  where subject is not null;  -- not for a lookup by (tenant, n)
create index audit_by_actor on windlass.audit (actor, tenant, n) where actor is not null;

create function windlass.keep_audit() returns trigger
language plpgsql as 'begin raise exception ''the audit log is not changed''; end';

create trigger keep_audit
  before update on windlass.audit
  for each row execute function windlass.keep_audit();
