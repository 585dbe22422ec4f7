-- Tags: a plain list, as everybody reads them; PostgreSQL's arrays may be more than that.
create or replace function windlass.check_tags(p_job text, p_tags text[]) returns text[]
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if array_ndims(p_tags) > 1 then
    perform windlass.refuse(p_job, 'tags', 'is not a plain list');
  end if;
  return p_tags;
end
$$;
