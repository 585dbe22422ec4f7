-- Refuse what an item of a batch says of the runs that it comes after, if Python would not take it.
create or replace function windlass.check_after(p_job text, p_name text, p_value json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_name = 'after' then
    if json_typeof(p_value) <> 'array' then
      perform windlass.refuse(p_job, p_name, 'is not a list of ids');
    elsif json_array_length(p_value) > 100 then
      perform windlass.refuse(p_job, p_name, 'names more than 100 runs');
    elsif exists (select 1 from json_array_elements(p_value) as a(value)
                   where json_typeof(a.value) <> 'string'
                      or a.value #>> '{}' !~* '^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$') then
      perform windlass.refuse(p_job, p_name, 'is not a list of ids');
    end if;
  elsif json_typeof(p_value) <> 'string' then
    perform windlass.refuse(p_job, p_name, 'is not a text');
  elsif p_name = 'after_failure' and p_value #>> '{}' not in ('cancel', 'run') then
    perform windlass.refuse(p_job, p_name, 'is neither cancel nor run');
  elsif p_name = 'takes' and p_value #>> '{}' !~ '^.{1,200}$' then
    perform windlass.refuse(p_job, p_name, 'is not the name of an argument');
  end if;
end
$$;

-- Hold the new runs of a batch (p_tenants, p_ids) that come after others, and leave a wake for each: see
-- domain/follower.py. Nothing of the runs that they come after is locked, so that this may be in
-- anybody's transaction. A run that does not exist, or comes later in the batch, is refused (WL005).
create or replace function windlass.hold_followers(
  p_runs json, p_tenants text[], p_ids uuid[], p_now timestamptz
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_item record;
  v_awaited uuid;
  v_ready windlass.ready;
  v_move windlass.move;
  v_places jsonb := '{}';  -- of the new runs in the batch
  v_n integer;
begin
  select jsonb_object_agg(x.id::text, x.n) into v_places
    from (select (e.item ->> 'id')::uuid as id, min(e.n) as n
            from json_array_elements(p_runs) with ordinality as e(item, n) group by 1) x
   where x.id = any (p_ids);
  for v_item in
    select e.n, coalesce(e.item ->> 'tenant', 'default') as tenant, (e.item ->> 'id')::uuid as id,
           e.item ->> 'job' as job, e.item -> 'after' as after, e.item ->> 'takes' as takes,
           coalesce(e.item ->> 'after_failure', 'cancel') as mode,
           e.item ->> 'delay' is not null or e.item ->> 'at' is not null as is_timed
      from json_array_elements(p_runs) with ordinality as e(item, n)
     where json_typeof(e.item -> 'after') = 'array' and json_array_length(e.item -> 'after') > 0
       and (v_places ->> (e.item ->> 'id')::uuid::text)::bigint = e.n
     order by e.n
  loop
    if v_item.is_timed then
      perform windlass.refuse(v_item.job, 'after', 'excludes delay and at: give one of them');
    elsif v_item.takes is not null and json_array_length(v_item.after) > 1 then
      perform windlass.refuse(v_item.job, 'takes', 'needs one run that it comes after');
    end if;
    v_n := 0;
    for v_awaited in
      select a.id from (select (a.value #>> '{}')::uuid as id, min(a.n) as n
                          from json_array_elements(v_item.after) with ordinality as a(value, n)
                         group by 1) a
       order by a.n
    loop
      if coalesce((v_places ->> v_awaited::text)::bigint >= v_item.n, false)
         or not exists (select 1 from windlass.runs r
                         where r.tenant = v_item.tenant and r.id = v_awaited) then
        perform windlass.refuse(v_item.job, 'after',
                                format('names the run %s: it does not exist', v_awaited));
      end if;
      insert into windlass.follows (tenant, id, n, awaited, mode, argument)
      values (v_item.tenant, v_item.id, v_n, v_awaited, v_item.mode, v_item.takes);
      v_n := v_n + 1;
    end loop;
    update windlass.runs r set links = coalesce(r.links, 0) | 8
     where r.tenant = v_item.tenant and r.id = v_item.id;
    insert into windlass.wakes (tenant, run) values (v_item.tenant, v_item.id);
    delete from windlass.ready q where q.tenant = v_item.tenant and q.id = v_item.id
      returning * into v_ready;
    v_move := windlass.move_from_ready(v_ready, 'hold');
    v_move.at := 'infinity';
    perform windlass.make_moves(array[v_move], p_now);
  end loop;
end
$$;
