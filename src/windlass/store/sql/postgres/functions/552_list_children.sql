-- The children that a run has started, by step and place; p_path: those of one step. The next page: p_after
-- and p_after_n = the last step and place of this one. status is null while a child lives.
create or replace function windlass.list_children(
  p_tenant text, p_run uuid, p_path text default null, p_after text default null,
  p_after_n integer default null, p_limit integer default 500
) returns table (
  path text, n integer, id uuid, state text, status text, failure text, result json, error json,
  reason text
)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
    select c.path, c.n, c.id, c.state, r.status, r.failure, r.result, r.error, r.reason
      from (select c.* from windlass.children c
             where c.parent = p_run and c.tenant = p_tenant and c.generation = 0
               and (p_path is null or c.path = p_path)
               and (c.path, c.n) > (coalesce(p_after, p_path, ''), coalesce(p_after_n, -1))
             order by c.path, c.n limit p_limit) c
      left join lateral (select r.* from windlass.runs r
                          where r.tenant = c.tenant and r.id = c.id limit 1) r on true
     order by c.path, c.n;
end
$$;
