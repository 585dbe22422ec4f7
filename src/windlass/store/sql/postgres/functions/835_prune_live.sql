-- Forget runs of schedules that have ended since somebody last looked; what is left in
-- schedule_live is live. The caller has locked the schedules, so nobody begins to live meanwhile.
-- p_most: how many of a schedule's runs to look at, the oldest first (null: all).
create or replace function windlass.prune_live(
  p_tenants text[], p_schedules uuid[], p_most integer[]
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
begin
  delete from windlass.schedule_live d
   where d.ctid = any (array (
     select l.place
       from unnest(p_tenants, p_schedules, p_most) as h(tenant, schedule, most)
      cross join lateral (
        select l.ctid as place, l.run from windlass.schedule_live l
         where l.tenant = h.tenant and l.schedule = h.schedule
         order by l.tenant, l.schedule, l.slot limit h.most) l
       left join lateral (
        select r.status is null as live from windlass.runs r
         where r.tenant = h.tenant and r.id = l.run limit 1) r on true
      where r.live is not true));
end
$$;
