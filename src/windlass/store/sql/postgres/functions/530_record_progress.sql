-- The latest progress of runs, each under the token of its lease. Items: tenant, id, token, and as they
-- apply fraction (0 to 1), message, detail (an object: units and phases). Returns the number of each item,
-- from 1, that was not written, and why:
--   lost   the lease is not held under that token
--   busy   somebody has the lease locked: send that item again
create or replace function windlass.record_progress(p_items json)
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
  perform windlass.check_escapes('list of progress', p_items);
  perform windlass.check_progress(x.fraction, x.message, x.detail)
     from json_to_recordset(p_items) as x(fraction double precision, message text, detail json);
  return query
    with item as materialized (
      select x.*
        from rows from (json_to_recordset(p_items)
               as (tenant text, id uuid, token bigint, fraction double precision, message text,
                   detail json))
             with ordinality as x(tenant, id, token, fraction, message, detail, n)
    ), ours as materialized (
      select i.n, i.tenant, i.id, i.fraction, i.message, i.detail
        from (select * from item order by tenant, id) i
       cross join lateral (select 1 from windlass.leases l
                            where l.tenant = i.tenant and l.id = i.id and l.token = i.token
                              for key share skip locked) l
    ), put as (
      insert into windlass.progress (tenant, id, fraction, message, detail, at)
      select o.tenant, o.id, o.fraction, o.message, o.detail, windlass.now()
        from (select distinct on (tenant, id) * from ours order by tenant, id, n desc) o
      on conflict (tenant, id) do update
        set fraction = excluded.fraction, message = excluded.message, detail = excluded.detail,
            at = excluded.at
    )
    select i.n, case when b.busy then 'busy' else 'lost' end
      from item i
      left join ours o on o.n = i.n
      left join lateral (select true as busy from windlass.leases l
                          where l.tenant = i.tenant and l.id = i.id and l.token = i.token
                          limit 1) b on true
     where o.n is null
     order by i.n;
end
$$;
