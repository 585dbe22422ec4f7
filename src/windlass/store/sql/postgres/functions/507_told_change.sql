-- What an event says of one change, as domain/changes.py has it: the old and the new value, or only their
-- sizes where they are large; null where there is no difference.
create or replace function windlass.told_change(p_old json, p_new json) returns json
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  c_most constant integer := 2000;  -- bytes of both
  v_old text := coalesce(p_old::text, 'null');
  v_new text := coalesce(p_new::text, 'null');
begin
  if v_old = v_new then
    return null;
  elsif octet_length(v_old) + octet_length(v_new) > c_most then
    return json_build_object('from_bytes', octet_length(v_old), 'to_bytes', octet_length(v_new));
  end if;
  return json_build_object('from', p_old, 'to', p_new);
end
$$;
