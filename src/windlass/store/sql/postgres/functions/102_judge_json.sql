-- Raises WL007 or WL010 if a document is one that codec.py would refuse: larger than 1 MiB, nested
-- deeper than 100 levels, with a NUL or half a surrogate pair, or with a number that no reader
-- holds. The type json takes all of these. Costly: for what windlass.needs_judging finds.
create or replace function windlass.judge_json(p_what text, p_text text) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_why text;
  v_value jsonb;
begin
  if octet_length(p_text) > 1048576 then
    raise exception '% of % bytes is over the limit of 1048576', p_what, octet_length(p_text)
      using errcode = 'WL007',
            detail = json_build_array(p_what, octet_length(p_text), 1048576)::text;
  end if;
  begin
    v_value := p_text::jsonb;
    if jsonb_path_exists(v_value, 'strict $.**{100} ? (@.type() == "array"
                                                       || @.type() == "object")') then
      v_why := 'it nests deeper than 100 levels';
    elsif exists (
      -- Without strings, in which nothing is a number; their escapes go first.
      select 1
        from regexp_matches(
               regexp_replace(regexp_replace(p_text, E'\\\\.', '', 'g'), '"[^"]*"', '', 'g'),
               '-?[0-9][0-9.eE+-]*', 'g') as m(found)
       cross join lateral (select m.found[1] as digits) d
       where case when d.digits ~ '[.eE]'
                  then abs(d.digits::numeric) >= 1.7976931348623158079e308
                  else d.digits::numeric not between -9223372036854775808
                                                 and 18446744073709551615 end)
    then
      v_why := 'a number of more than 64 bits; pass it as text';
    end if;
  exception
    when untranslatable_character then v_why := 'it has a NUL character';
    when invalid_text_representation then v_why := 'a lone surrogate is no character';
    when numeric_value_out_of_range then
      v_why := 'a number of more than 64 bits; pass it as text';
    when statement_too_complex then v_why := 'it nests deeper than 100 levels';
  end;
  if v_why is not null then
    raise exception '% cannot be stored: %', p_what, v_why
      using errcode = 'WL010', detail = json_build_array(p_what, v_why)::text;
  end if;
end
$$;
