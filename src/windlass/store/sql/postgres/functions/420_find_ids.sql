-- The ids of one page of a listing, newest first, and where the next page begins: p_before = next; null,
-- there is nothing more. It walks one index backwards, or those of a few statuses at once, and looks at
-- each run for what the index does not say (windlass.fitting_ids). It looks at 5,000 runs at most, so a
-- page that has a next one may be short, even empty.
create or replace function windlass.find_ids(p_filter windlass.run_filter)
returns table (tenant text, ids uuid[], next uuid)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  c_walked constant integer := 5000;
  v_apart text[] := '{scheduled,queued,running,failed,canceled,waiting,paused}';
  -- Ids begin with their maker's clock. A day of slack for clocks that are off; created_at,
  -- the store's clock, decides. What ended before an instant was made before it.
  v_low uuid := coalesce(windlass.id_at(p_filter.created_from - interval '1 day'),
                         '00000000-0000-0000-0000-000000000000');
  v_high uuid := coalesce(
    least(p_filter.before, windlass.id_at(p_filter.created_to + interval '1 day'),
          windlass.id_at(p_filter.finished_to + interval '1 day')),
    'ffffffff-ffff-ffff-ffff-ffffffffffff');
  v_limit integer := least(p_filter."limit", 1000);
  v_size integer := v_limit + 1;  -- one more tells whether there is more
  v_looked integer := 0;
  v_rest windlass.run_filter := p_filter;  -- what the walks do not say
  v_walks text[];
  v_value text;
  v_walk text;
  v_part uuid[];
  v_ids uuid[];
  v_fit uuid[];
  v_floor uuid;  -- down to which all walks have come; null: to the end
begin
  tenant := p_filter.tenant;
  ids := '{}';
  if p_filter.key is not null then
    v_walks := '{key}'; v_value := p_filter.key; v_rest.key := null;
  elsif p_filter.schedule is not null then
    v_walks := '{schedule}'; v_value := p_filter.schedule; v_rest.schedule := null;
  elsif p_filter.tag is not null then
    v_walks := '{tag}'; v_value := p_filter.tag; v_rest.tag := null;
  elsif p_filter.statuses <@ v_apart then
    v_walks := p_filter.statuses; v_rest.statuses := null;
  elsif p_filter.job is not null then
    v_walks := '{job}'; v_value := p_filter.job; v_rest.job := null;
  else
    v_walks := '{all}';
  end if;
  loop
    v_ids := '{}';
    v_floor := null;
    foreach v_walk in array v_walks loop
      v_part := windlass.walk_ids(v_walk, p_filter.tenant, v_value, v_low, v_high, v_size);
      v_ids := v_ids || v_part;
      if cardinality(v_part) = v_size then
        v_floor := greatest(v_floor, v_part[v_size]);
      end if;
    end loop;
    if cardinality(v_walks) > 1 then
      v_ids := array(select i.id from unnest(v_ids) as i(id)
                      where v_floor is null or i.id >= v_floor order by i.id desc);
    end if;
    v_fit := case when windlass.is_any_run(v_rest) then v_ids
                  else windlass.fitting_ids(v_rest, v_ids) end;
    v_looked := v_looked + cardinality(v_ids);
    ids := ids || v_fit[:v_limit - cardinality(ids)];
    if cardinality(ids) = v_limit
       and (v_floor is not null or ids[v_limit] <> v_ids[cardinality(v_ids)]) then
      next := ids[v_limit];
      exit;
    end if;
    exit when v_floor is null;
    if v_looked >= c_walked then
      next := v_floor;
      exit;
    end if;
    v_high := v_floor;
    v_size := least(v_size * 4, c_walked - v_looked);
  end loop;
  return next;
end
$$;

-- Whether every run of the tenant fits.
create or replace function windlass.is_any_run(p_filter windlass.run_filter) returns boolean
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  p_filter.tenant := null;
  p_filter.before := null;
  p_filter."limit" := null;
  p_filter.dead := nullif(p_filter.dead, false);
  return p_filter is null;  -- each of its members
end
$$;
