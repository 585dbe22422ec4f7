-- What is paused, queues first, by name; of all tenants without p_tenant.
create or replace function windlass.list_pauses(p_tenant text default null)
returns table (tenant text, kind text, name text, since timestamptz, by text, reason text)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  return query
    select p.tenant, p.kind, p.name, p.since, p.actor, p.reason from windlass.pauses p
     where p_tenant is null or p.tenant = p_tenant
     order by p.kind desc, p.name, p.tenant;
end
$$;
