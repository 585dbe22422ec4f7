-- Refuse progress that no client could have written (WL005).
create or replace function windlass.check_progress(
  p_fraction double precision, p_message text, p_detail json
) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_fraction not between 0 and 1 then
    perform windlass.refuse('progress', 'fraction', 'is not a number from 0 to 1');
  elsif json_typeof(p_detail) <> 'object' or octet_length(p_detail::text) > 131072 then
    perform windlass.refuse('progress', 'detail', 'is not an object of at most 128 KiB');
  end if;
  perform windlass.check_words('progress', 'message', p_message, 10000);
end
$$;
