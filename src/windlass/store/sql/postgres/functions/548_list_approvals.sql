-- What runs ask people and has no answer, by run and step. The next page: p_after_run and p_after_path = the
-- last ones of this page.
create or replace function windlass.list_approvals(
  p_tenant text, p_after_run uuid default null, p_after_path text default null,
  p_limit integer default 1000
) returns table (run uuid, job text, name text, question text, asked_at timestamptz,
                 expires_at timestamptz)
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
    select s.run, r.job, s.path, s.input::json ->> 'question', s.started_at, s.until
      from windlass.steps s
      join windlass.runs r on r.tenant = s.tenant and r.id = s.run
     where s.tenant = p_tenant and s.kind = 'approval' and s.state = 'waiting' and s.generation = 0
       and (s.run, s.path) > (coalesce(p_after_run, '00000000-0000-0000-0000-000000000000'),
                              coalesce(p_after_path, ''))
       and r.status is null and (s.until is null or s.until > windlass.now())
       and not exists (select 1 from windlass.signals g
                        where g.tenant = s.tenant and g.run = s.run and g.name = s.signal)
     order by s.run, s.path limit p_limit;
end
$$;
