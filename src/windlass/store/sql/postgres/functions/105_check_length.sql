-- A length of time: from zero to a century, as duration.py has it. Beyond that, and where it is
-- not a number, the times that it leads to are none that every client can read.
create or replace function windlass.check_length(
  p_of text, p_argument text, p_seconds double precision
) returns interval
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_seconds not between 0 and 3155760000 then
    perform windlass.refuse(p_of, p_argument, 'is not a number of seconds from 0 to 100 years');
  end if;
  return make_interval(secs => p_seconds);
end
$$;
