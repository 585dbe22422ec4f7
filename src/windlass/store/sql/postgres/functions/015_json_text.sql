-- A row as JSON that reads the same whatever is set in the session: times in UTC, since other zones
-- have offsets of odd seconds for times long past; numbers to the last digit.
create or replace function windlass.json_text(p_row anyelement) returns text
language plpgsql stable
set timezone = 'UTC'
set extra_float_digits = 1
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return row_to_json(p_row)::text;
end
$$;
