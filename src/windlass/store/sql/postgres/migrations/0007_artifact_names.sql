-- A run has one artifact of each name. The index that keeps this also lists them, so that the one by run alone
-- is not needed any more. Of several that a run may have had, the latest stays.

delete from windlass.artifacts a
 where a.run is not null
   and exists (select 1 from windlass.artifacts later
                where later.tenant = a.tenant and later.run = a.run and later.name = a.name
                  and (later.created_at, later.id) > (a.created_at, a.id));

drop index windlass.artifacts_by_run;
create unique index artifacts_by_name on windlass.artifacts (tenant, run, name collate "C")
  where run is not null;
