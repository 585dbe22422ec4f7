-- Go on with the record of slots of a schedule that was deleted, at most p_limit of them. Any
-- process may do it, any number at once. Returns whether there may be more to do: call again.
create or replace function windlass.forget_slots(p_limit integer default 1000) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_gone windlass.schedule_gone;
begin
  select * into v_gone from windlass.schedule_gone g
   order by g.tenant, g.schedule limit 1 for update skip locked;
  if not found then
    return false;
  end if;
  if windlass.drop_slots(v_gone.tenant, v_gone.schedule, p_limit) then
    return true;
  end if;
  delete from windlass.schedule_gone g
   where g.tenant = v_gone.tenant and g.schedule = v_gone.schedule;
  return exists (select 1 from windlass.schedule_gone);
end
$$;
