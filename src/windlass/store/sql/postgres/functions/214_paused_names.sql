-- What is paused, as is_paused takes it; null: nothing.
create or replace function windlass.paused_names() returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return (select array_agg(p.kind || '/' || p.tenant || '/' || p.name) from windlass.pauses p);
end
$$;

-- Whether a run must not be started now, because its queue or its job is among those that are paused. Its
-- names are resolved here and now, so it needs no search_path, and costs its callers no call.
create or replace function windlass.is_paused(
  p_names text[], p_tenant text, p_queue text, p_job text
) returns boolean
language sql immutable
return coalesce(
  array['queue/' || p_tenant || '/' || p_queue, 'job/' || p_tenant || '/' || p_job] && p_names,
  false);
