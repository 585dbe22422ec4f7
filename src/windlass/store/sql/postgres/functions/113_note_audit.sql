-- Note in the audit log who did what, and why; in the transaction that does it. Without p_by it is the
-- login role. p_kind: what p_subject names, such as run.
create or replace function windlass.note_audit(
  p_tenant text, p_kind text, p_subject text, p_verb text, p_by text,
  p_reason text default null, p_detail json default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_n bigint;
begin
  insert into windlass.audit (tenant, at, actor, verb, kind, subject, reason, detail)
  values (p_tenant, windlass.now(),
          coalesce(windlass.check_words(p_verb, 'by', p_by, 200), session_user::text),
          p_verb, p_kind, p_subject, p_reason, p_detail)
  returning n into v_n;
  return v_n;
end
$$;

-- The trigger of migrations/0005_audit.sql: what was noted stays as it is.
create or replace function windlass.keep_audit() returns trigger
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  raise exception 'the audit log is not changed';
end
$$;
