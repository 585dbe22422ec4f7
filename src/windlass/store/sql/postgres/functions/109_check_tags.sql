-- Tags: a plain list, as everybody reads them; PostgreSQL's arrays may be more than that. Runs are
-- found by them, so they must fit an index.
create or replace function windlass.check_tags(p_job text, p_tags text[]) returns text[]
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if array_ndims(p_tags) > 1 then
    perform windlass.refuse(p_job, 'tags', 'is not a plain list');
  elsif cardinality(p_tags) > 100 then
    perform windlass.refuse(p_job, 'tags', 'has more than 100 texts');
  elsif exists (select 1 from unnest(p_tags) as t(tag)
                 where t.tag is null or length(t.tag) not between 1 and 200) then
    perform windlass.refuse(p_job, 'tags', 'has one that is not a text of 1 to 200 characters');
  end if;
  return p_tags;
end
$$;
