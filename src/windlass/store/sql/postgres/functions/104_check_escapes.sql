-- Refuse a list of any size that has a NUL or half a surrogate pair anywhere (WL010). To read it
-- as records would refuse these too, but not in words of ours.
create or replace function windlass.check_escapes(p_what text, p_list json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_text text := p_list::text;
  v_why text;
begin
  if position(E'\\' in v_text) = 0 or position(E'\\u' in v_text) = 0 then
    return;
  end if;
  begin
    perform v_text::jsonb;
  exception
    when untranslatable_character then v_why := 'it has a NUL character';
    when invalid_text_representation then v_why := 'a lone surrogate is no character';
    when others then return;  -- a matter of one document, which is looked at by itself
  end;
  if v_why is not null then
    raise exception 'the % cannot be stored: %', p_what, v_why
      using errcode = 'WL010', detail = json_build_array(p_what, v_why)::text;
  end if;
end
$$;
