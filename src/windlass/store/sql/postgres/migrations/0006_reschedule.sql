-- Runs can be rescheduled: there are functions more (windlass.reopen_run, windlass.reschedule), made
-- by their files, and a program that calls them needs a database that has them.

select 1;
