-- Raises WL005: an argument of p_of, a job or a function, is out of range. A function of its own,
-- so that it can be called from within a statement, where something is wrong.
create or replace function windlass.refuse(p_of text, p_argument text, p_why text) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  raise exception '%: % %', p_of, p_argument, p_why
    using errcode = 'WL005',
          detail = json_build_array(p_of, format('was given %s, which %s', p_argument, p_why),
                                    p_argument)::text;
end
$$;
