-- Parts of windlass.change. The caller has made the run its own. Each returns what the event says of its
-- change, null where nothing differs (see windlass.told_change).

-- Give a run these tags instead of those that it has.
create or replace function windlass.edit_tags(p_run windlass.runs, p_tags json) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_old text[] := coalesce(p_run.tags, '{}');
  v_new text[] := '{}';
  v_tag text;
begin
  if json_typeof(p_tags) = 'array' then
    -- Each once, in the order given.
    v_new := array(select t.tag from json_array_elements_text(p_tags) with ordinality as t(tag, n)
                    group by t.tag order by min(t.n));
  end if;
  foreach v_tag in array v_old loop
    delete from windlass.run_tags g
     where g.tenant = p_run.tenant and g.tag = v_tag and g.id = p_run.id;
  end loop;
  insert into windlass.run_tags (tenant, tag, id)
  select p_run.tenant, t.tag, p_run.id from unnest(v_new) as t(tag);
  update windlass.runs r set tags = nullif(v_new, '{}')
   where r.tenant = p_run.tenant and r.id = p_run.id;
  return windlass.told_change(to_json(v_old), to_json(v_new));
end
$$;

-- Give a run a timeout of its own; null: that of its job counts.
create or replace function windlass.edit_timeout(p_run windlass.runs, p_timeout json) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_old json := p_run.options -> 'timeout';
  v_new json := case when json_typeof(p_timeout) <> 'null' then p_timeout end;
  v_options jsonb := coalesce(p_run.options::jsonb, '{}') - 'timeout';
begin
  if v_new is not null then
    v_options := v_options || jsonb_build_object('timeout', v_new);
  end if;
  update windlass.runs r set options = nullif(v_options, '{}')::json
   where r.tenant = p_run.tenant and r.id = p_run.id;
  if (v_old #>> '{}')::numeric = (v_new #>> '{}')::numeric then
    return null;  -- 30 is 30.0
  end if;
  return windlass.told_change(v_old, v_new);
end
$$;
