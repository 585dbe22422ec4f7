-- The items of windlass.put_schedules, n counting from 1, as rows.
create or replace function windlass.read_schedules(p_items json)
returns table (n bigint, new windlass.schedules)
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  return query
    select x.n,
           (coalesce(x.tenant, 'default'), x.id, x.key, x.job, x.rule,
            coalesce(x.input, 'null'), coalesce(x.options, '{}'), coalesce(x.overlap, 'allow'),
            coalesce(x.enabled, true), coalesce(x.origin, 'runtime'), x.next_slot, null,
            0, 0, 0, 1, 1, null, null)::windlass.schedules
      from rows from (json_to_recordset(p_items)
             as (tenant text, id uuid, key text, job text, rule json, input json, options json,
                 overlap text, enabled boolean, origin text, next_slot timestamptz))
           with ordinality
           as x(tenant, id, key, job, rule, input, options, overlap, enabled, origin, next_slot, n);
end
$$;

-- Store schedules, each found by its key or, where it has none, by its id. A known one whose
-- definition (job, rule, input, options, overlap, key) is the same is left as it is; a changed one
-- gets version + 1 and the next_slot given, unless it is paused. The counters stay.
-- Items: tenant, id, key, job, rule, input, options, overlap, origin, enabled, next_slot. Returns
-- for each, n counting from 1, what was done: created, changed, unchanged, or taken (the id
-- names one schedule and the key another: nothing was written), and the row.
create or replace function windlass.put_schedules(p_items json)
returns table (n bigint, what text, schedule json)
language plpgsql volatile security definer
set timezone = 'UTC'
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_item record;
  v_put record;
begin
  perform windlass.check_escapes('schedules', p_items);
  perform windlass.check_schedule(x.new) from windlass.read_schedules(p_items) x;
  -- Those that are there and differ, by (tenant, id), however they are named. Whoever names them
  -- by key and whoever names them by id would else meet crosswise.
  for v_item in
    select (f.stored).tenant, (f.stored).id
      from windlass.read_schedules(p_items) x
     cross join lateral (
       select s as stored from windlass.schedules s
        where s.tenant = (x.new).tenant and s.key = (x.new).key
       union all
       select s from windlass.schedules s
        where s.tenant = (x.new).tenant and s.id = (x.new).id) f
     where not windlass.is_stored(f.stored, x.new) or (f.stored).origin <> (x.new).origin
     order by 1, 2
  loop
    perform 1 from windlass.schedules s
      where s.tenant = v_item.tenant and s.id = v_item.id for no key update;
  end loop;
  -- New ones by key, and then by id; of one key, in the order of the list.
  for v_item in
    select x.n, x.new
      from windlass.read_schedules(p_items) x
     order by (x.new).tenant, (x.new).key,
              case when (x.new).key is null then (x.new).id end, x.n
  loop
    select * into v_put from windlass.put_schedule(v_item.new);
    n := v_item.n;
    what := v_put.what;
    schedule := row_to_json(v_put.stored);
    return next;
  end loop;
end
$$;
