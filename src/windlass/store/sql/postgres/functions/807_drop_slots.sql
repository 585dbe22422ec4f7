-- Delete the oldest p_limit slots of a schedule (null: all); the caller has its row, or that in
-- schedule_gone, locked. Returns whether any are left.
create or replace function windlass.drop_slots(p_tenant text, p_schedule uuid, p_limit integer)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
  delete from windlass.schedule_slots d
   where d.ctid = any (array (
     select k.ctid from windlass.schedule_slots k
      where k.tenant = p_tenant and k.schedule = p_schedule
      order by k.tenant, k.schedule, k.slot limit p_limit));
  return (select true from windlass.schedule_slots k
           where k.tenant = p_tenant and k.schedule = p_schedule limit 1) is not null;
end
$$;
