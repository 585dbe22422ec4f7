-- Whether one of these steps of a run waits for a signal that is there, and answered no other, or for
-- children that have all ended.
create or replace function windlass.is_answered(p_tenant text, p_run uuid, p_paths text[])
returns boolean
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return exists (
    select 1
      from unnest(p_paths) as w(path)
     cross join lateral (select s.kind, s.signal from windlass.steps s
                          where s.tenant = p_tenant and s.run = p_run and s.generation = 0
                            and s.path = w.path and s.state = 'waiting' limit 1) s
     where case when s.kind in ('child', 'children')
                then not exists (select 1 from windlass.children c
                                  where c.parent = p_run and c.tenant = p_tenant
                                    and c.generation = 0 and c.path = w.path
                                    and c.state <> 'ended')
                else exists (select 1 from windlass.signals g
                              where g.tenant = p_tenant and g.run = p_run and g.name = s.signal
                                and g.taken_by is null) end);
end
$$;
