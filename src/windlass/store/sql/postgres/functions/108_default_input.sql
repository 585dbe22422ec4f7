-- The input of a run that was enqueued without one: the job's default, or no arguments.
create or replace function windlass.default_input(p_tenant text, p_job text) returns json
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_input json;
begin
  select j.default_input into v_input
    from windlass.jobs j where j.tenant = p_tenant and j.name = p_job;
  if v_input is null or json_typeof(v_input) = 'null' then
    return '{}';
  end if;
  return v_input;
end
$$;
