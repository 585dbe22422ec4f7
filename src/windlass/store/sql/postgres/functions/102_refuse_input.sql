-- Raises WL007: the input is too large. Called where it is.
create or replace function windlass.refuse_input(p_size integer) returns json
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  raise exception 'input of % bytes is over the limit of 1048576', p_size
    using errcode = 'WL007', detail = json_build_array('input', p_size, 1048576)::text;
end
$$;
