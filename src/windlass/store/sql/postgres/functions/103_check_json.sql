-- Refuse documents that codec.py would refuse, see windlass.judge_json. Nearly all are fine, and
-- pay for a few searches of their text: NUL and surrogates are written as escapes; whatever is
-- too deep has more than 100 brackets that open, and more than 200 bytes.
-- Numbers are looked at in a document that comes alone: in a batch that would cost a good part of
-- the insert, and one that is too large harms the reader of its own run only.
create or replace function windlass.check_json(p_what text, p_values json[]) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_alone boolean := cardinality(p_values) = 1;
  v_text text;
begin
  for v_text in
    select d.text
      from (select u.value::text as text from unnest(p_values) as u(value) offset 0) d
     where octet_length(d.text) > 1048576
        or (position(E'\\' in d.text) > 0 and position(E'\\u' in d.text) > 0)
        or (octet_length(d.text) > 200
            and octet_length(d.text)
                - octet_length(replace(replace(d.text, '[', ''), '{', '')) > 100)
        or (v_alone and d.text ~ '[0-9]{19}|[0-9][eE][+]?[0-9]{3}')
  loop
    perform windlass.judge_json(p_what, v_text);
  end loop;
end
$$;
