-- Which of several runs have ended, and nothing else of them: for callers that ask often. Unknown ids are
-- left out.
create or replace function windlass.look_for_ends(p_tenant text, p_ids uuid[])
returns table (id uuid, has_ended boolean)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return query
    select i.id, r.has_ended
      from (select distinct unnest(p_ids) as id) i
     cross join lateral (select x.status is not null as has_ended from windlass.runs x
                          where x.tenant = p_tenant and x.id = i.id limit 1) r;
end
$$;
