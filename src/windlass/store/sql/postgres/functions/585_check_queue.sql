-- The name of a queue, as domain/job.py has it: visible, without spaces or commas.
create or replace function windlass.check_queue(p_job text, p_queue text) returns text
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_queue !~ '^[^[:space:],[:cntrl:]]{1,200}$' then
    perform windlass.refuse(p_job, 'queue', 'is not a name: no spaces, commas or control '
                                            'characters, at most 200 in all');
  end if;
  return p_queue;
end
$$;
