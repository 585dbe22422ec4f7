-- Let a queue or a job (p_kind) go on. Harmless to repeat. Returns the pause that was there.
create or replace function windlass.resume_work(
  p_tenant text, p_kind text, p_name text, p_by text default null
) returns table (tenant text, kind text, name text, since timestamptz, by text, reason text)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  perform windlass.check_tenant('resume', p_tenant), windlass.check_paused(p_kind, p_name);
  return query
    delete from windlass.pauses p
     where p.tenant = p_tenant and p.kind = p_kind and p.name = p_name
    returning p.tenant, p.kind, p.name, p.since, p.actor, p.reason;
  perform windlass.note_audit(p_tenant, p_kind, p_name, 'resume', p_by, null, null);
end
$$;
