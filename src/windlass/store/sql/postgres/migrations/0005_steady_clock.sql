-- A sweep is told what time the reaper believes it to be: the function, made anew by its file, has
-- one parameter more.

drop function if exists windlass.sweep(boolean, boolean, boolean, integer, integer,
                                       double precision);
