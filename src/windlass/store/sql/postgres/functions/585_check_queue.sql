-- The name of a queue, see windlass.is_name.
create or replace function windlass.check_queue(p_job text, p_queue text) returns text
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if not windlass.is_name(p_queue) then
    perform windlass.refuse(p_job, 'queue', 'is not a name: no spaces, commas or control '
                                            'characters, at most 200 in all');
  end if;
  return p_queue;
end
$$;
