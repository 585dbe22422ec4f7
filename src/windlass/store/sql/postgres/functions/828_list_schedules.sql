-- A page of schedules, newest id first. The next page: p_before = the last id of this one.
create or replace function windlass.list_schedules(
  p_tenant text, p_job text default null, p_enabled boolean default null,
  p_origin text default null, p_before uuid default null, p_limit bigint default 50
) returns setof windlass.schedules
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_custom_plan
as $$
begin
  return query
    select s.* from windlass.schedules s
     where s.tenant = p_tenant and (p_job is null or s.job = p_job)
       and (p_enabled is null or s.enabled = p_enabled)
       and (p_origin is null or s.origin = p_origin)
       and (p_before is null or s.id < p_before)
     order by s.id desc limit least(p_limit, 1000);
end
$$;
