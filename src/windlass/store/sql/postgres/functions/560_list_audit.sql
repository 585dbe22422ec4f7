-- The audit log, the latest first. p_subject and p_actor: only what is about one, or was done by one. p_kind: what
-- p_subject names, where a queue and a job may have the same name. The next page: p_before = the last number of this one.
create or replace function windlass.list_audit(
  p_tenant text, p_subject text default null, p_actor text default null,
  p_before bigint default null, p_limit integer default 100,
  p_kind text default null
) returns table (number bigint, at timestamptz, actor text, verb text, kind text, subject text,
                 reason text, detail json)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_before bigint := coalesce(p_before, 9223372036854775807);
begin
  if p_subject is not null then
    return query
      select a.n, a.at, a.actor, a.verb, a.kind, a.subject, a.reason, a.detail
        from windlass.audit a
       where (a.subject, a.tenant, a.n) < (p_subject, p_tenant, v_before)
         and (a.subject, a.tenant, a.n) >= (p_subject, p_tenant, 0) and a.subject = p_subject
         and (p_actor is null or a.actor = p_actor) and (p_kind is null or a.kind = p_kind)
       order by a.subject desc, a.tenant desc, a.n desc limit p_limit;
  elsif p_actor is not null then
    return query
      select a.n, a.at, a.actor, a.verb, a.kind, a.subject, a.reason, a.detail
        from windlass.audit a
       where (a.actor, a.tenant, a.n) < (p_actor, p_tenant, v_before)
         and (a.actor, a.tenant, a.n) >= (p_actor, p_tenant, 0) and a.actor = p_actor
       order by a.actor desc, a.tenant desc, a.n desc limit p_limit;
  else
    return query
      select a.n, a.at, a.actor, a.verb, a.kind, a.subject, a.reason, a.detail
        from windlass.audit a
       where a.tenant = p_tenant and a.n < v_before
       order by a.n desc limit p_limit;
  end if;
end
$$;
