-- Refuse documents that codec.py would refuse.
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
     where windlass.needs_judging(d.text, v_alone)
  loop
    perform windlass.judge_json(p_what, v_text);
  end loop;
end
$$;
