-- Pause a queue or a job (p_kind), which need not exist yet. Harmless to repeat: the first pause stays as it
-- is. Nothing is started from it by claims that begin after this has committed; call settle_pauses then, in a
-- transaction of its own, to wait for those that began before.
create or replace function windlass.pause_work(
  p_tenant text, p_kind text, p_name text, p_reason text default null, p_by text default null
) returns table (tenant text, kind text, name text, since timestamptz, by text, reason text)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_reason text := windlass.check_words('pause', 'reason', p_reason, 10000);
begin
  perform windlass.check_tenant('pause', p_tenant), windlass.check_paused(p_kind, p_name);
  insert into windlass.pauses (tenant, kind, name, since, actor, reason)
  values (p_tenant, p_kind, p_name, windlass.now(),
          coalesce(windlass.check_words('pause', 'by', p_by, 200), session_user::text), v_reason)
  on conflict (tenant, kind, name) do nothing;
  perform windlass.note_audit(p_tenant, p_kind, p_name, 'pause', p_by, v_reason, null);
  return query
    select p.tenant, p.kind, p.name, p.since, p.actor, p.reason from windlass.pauses p
     where p.tenant = p_tenant and p.kind = p_kind and p.name = p_name;
end
$$;

-- What can be paused: see windlass.pause_work.
create or replace function windlass.check_paused(p_kind text, p_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_kind is null or p_kind not in ('queue', 'job') then
    perform windlass.refuse('pause', 'kind', 'is neither queue nor job');
  end if;
  if windlass.is_name(p_name) is not true then
    perform windlass.refuse('pause', 'name', 'is not a name: no spaces, commas or control characters');
  end if;
end
$$;
