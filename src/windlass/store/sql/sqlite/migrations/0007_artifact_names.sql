-- A run has one artifact of each name. The index that keeps this also lists them, so that the one by run alone
-- is not needed any more. Of several that a run may have had, the latest stays.

delete from artifacts
 where run is not null
   and exists (select 1 from artifacts later
                where later.tenant = artifacts.tenant and later.run = artifacts.run
                  and later.name = artifacts.name
                  and (later.created_at, later.id) > (artifacts.created_at, artifacts.id));

drop index artifacts_by_run;
create unique index artifacts_by_name on artifacts (tenant, run, name) where run is not null;
