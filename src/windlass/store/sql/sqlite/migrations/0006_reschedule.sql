-- Runs can be rescheduled; there is nothing to change here, where operations are not functions of
-- the database.

select 1;
