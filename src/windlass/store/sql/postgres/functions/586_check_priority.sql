-- A priority as domain/job.py has it. Its negative is the rank in a queue.
create or replace function windlass.check_priority(p_job text, p_priority integer) returns integer
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_priority not between -32768 and 32767 then
    perform windlass.refuse(p_job, 'priority', 'is not a whole number from -32768 to 32767');
  end if;
  return p_priority;
end
$$;
