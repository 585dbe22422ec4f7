-- The ids of one page of a listing, by a filter as JSON: see windlass.find_ids.
create or replace function windlass.find_runs(p_filter json) returns table (ids uuid[], next uuid)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return query
    select f.ids, f.next
      from windlass.find_ids(json_populate_record(null::windlass.run_filter, p_filter)) f;
end
$$;

-- The same page with its runs as documents, each with where the next page begins. A page without runs has
-- one row all the same, without a document.
create or replace function windlass.page_runs(p_filter json)
returns table (document text, next uuid)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
declare
  v_ids uuid[];
begin
  select f.ids, f.next into v_ids, next from windlass.find_runs(p_filter) f;
  for document in
    select windlass.json_text(v) from windlass.get_runs(p_filter ->> 'tenant', v_ids) v
  loop
    return next;
  end loop;
  if not found then
    document := null;
    return next;
  end if;
end
$$;
