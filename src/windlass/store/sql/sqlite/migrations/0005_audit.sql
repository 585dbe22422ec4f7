-- The audit log: who did what to which run, when and why. Rows are added in the transaction that does it,
-- and never changed.

create table audit (
  n       integer primary key autoincrement,
  tenant  text not null,
  at      integer not null,
  actor   text not null,
  verb    text not null,
  kind    text not null,  -- what subject names
  subject text not null,
  reason  text,
  detail  text
) strict;

create index audit_by_tenant on audit (tenant, n);
create index audit_by_subject on audit (subject, tenant, n);
create index audit_by_actor on audit (actor, tenant, n);

create trigger keep_audit before update on audit
begin
  select raise(abort, 'the audit log is not changed');
end;
