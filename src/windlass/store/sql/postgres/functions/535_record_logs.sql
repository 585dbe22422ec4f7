-- Pieces of the logs of runs, each under the token of its attempt: while that has the lease, or after it has
-- ended the run. Items: tenant, id, token, attempt, first (the number of its first line in the attempt), and
-- lines (an array of objects). A piece that is there already stays as it is. Returns the number of each item,
-- from 1, that was not written, and why:
--   lost   another attempt has the run, or nobody has it
--   busy   somebody has the lease or the record locked: send that item again
create or replace function windlass.record_logs(p_items json)
returns table (number bigint, answer text)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform windlass.check_escapes('list of logs', p_items);
  perform windlass.check_log(x.first, x.lines)
     from json_to_recordset(p_items) as x(first integer, lines json);
  return query
    with item as materialized (
      select x.*
        from rows from (json_to_recordset(p_items)
               as (tenant text, id uuid, token bigint, attempt integer, first integer, lines json))
             with ordinality as x(tenant, id, token, attempt, first, lines, n)
    ), held as materialized (
      select i.n
        from (select * from item order by tenant, id) i
       cross join lateral (select 1 from windlass.leases l
                            where l.tenant = i.tenant and l.id = i.id and l.token = i.token
                              for key share skip locked) l
    ), ended as materialized (
      select i.n
        from (select * from item order by tenant, id) i
       cross join lateral (select 1 from windlass.runs r
                            where r.tenant = i.tenant and r.id = i.id and r.token = i.token
                              and r.status is not null
                              for key share skip locked) r
       where not exists (select 1 from held h where h.n = i.n)
    ), ours as (
      select h.n from held h union all select e.n from ended e
    ), put as (
      insert into windlass.run_logs (tenant, run, token, first, attempt, lines)
      select i.tenant, i.id, i.token, i.first, coalesce(i.attempt, 0), i.lines
        from item i
       where exists (select 1 from ours o where o.n = i.n)
      on conflict (tenant, run, token, first) do nothing
    )
    select i.n,
           case when exists (select 1 from windlass.leases l
                              where l.tenant = i.tenant and l.id = i.id and l.token = i.token)
                  or exists (select 1 from windlass.runs r
                              where r.tenant = i.tenant and r.id = i.id and r.token = i.token
                                and r.status is not null)
                then 'busy' else 'lost' end
      from item i
     where not exists (select 1 from ours o where o.n = i.n)
     order by i.n;
end
$$;

-- Refuse a piece of a log that no client could have written (WL005).
create or replace function windlass.check_log(p_first integer, p_lines json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_first is null or p_first < 0 then
    perform windlass.refuse('log', 'first', 'is not the number of a line, from 0');
  elsif coalesce(json_typeof(p_lines) <> 'array', true) or octet_length(p_lines::text) > 1048576 then
    perform windlass.refuse('log', 'lines', 'is not an array of at most 1 MiB');
  end if;
end
$$;
