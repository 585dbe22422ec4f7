-- Store schedules, each found by its key or, where it has none, by its id. A known one whose
-- definition (job, rule, input, options, overlap, key) is the same is left as it is; a changed one
-- gets version + 1 and the next_slot given, unless it is paused. The counters stay.
-- Items: tenant, id, key, job, rule, input, options, overlap, origin, enabled, next_slot. Returns
-- for each, n counting from 1, what was done: created, changed, unchanged, or taken (the id
-- names one schedule and the key another: nothing was written), and the row.
create or replace function windlass.put_schedules(p_items json)
returns table (n bigint, what text, schedule json)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  v_item record;
  v_put record;
begin
  perform windlass.check_escapes('schedules', p_items);
  -- In one order for everybody; of one key, in the order of the list.
  for v_item in
    select x.n,
           (coalesce(x.tenant, 'default'), x.id, x.key, x.job, x.rule,
            coalesce(x.input, 'null'), coalesce(x.options, '{}'), coalesce(x.overlap, 'allow'),
            coalesce(x.enabled, true), coalesce(x.origin, 'runtime'), x.next_slot, null,
            0, 0, 0, 1, 1, null, null)::windlass.schedules as new
      from rows from (json_to_recordset(p_items)
             as (tenant text, id uuid, key text, job text, rule json, input json, options json,
                 overlap text, enabled boolean, origin text, next_slot timestamptz))
           with ordinality
           as x(tenant, id, key, job, rule, input, options, overlap, enabled, origin, next_slot, n)
     order by coalesce(x.tenant, 'default'), x.key, case when x.key is null then x.id end, x.n
  loop
    perform windlass.check_schedule(v_item.new);
    select * into v_put from windlass.put_schedule(v_item.new);
    n := v_item.n;
    what := v_put.what;
    schedule := row_to_json(v_put.stored);
    return next;
  end loop;
end
$$;
