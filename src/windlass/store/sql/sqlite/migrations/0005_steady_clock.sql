-- A sweep is told what time the reaper believes it to be; there is nothing to change here, where
-- operations are not functions of the database.

select 1;
