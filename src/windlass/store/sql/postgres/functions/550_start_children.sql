-- Start children of a run, in one of its steps, under the token of its lease. p_step: the step, as for
-- windlass.record_steps; it is recorded with the first of them. p_runs: as for windlass.enqueue_many,
-- without keys; the first of them has place p_first among all that the step starts. Those whose place is
-- taken were started before, and are left alone. p_parallel: how many may be live at a time; the others
-- are held, and windlass.tend lets them go one by one.
--
-- Returns {"started": how many the step has started so far, "ready": [ids of new ones that are not
-- held]}, or {"lost": true} if the lease is not held under that token: nothing was done.
create or replace function windlass.start_children(
  p_tenant text, p_id uuid, p_token bigint, p_step json, p_first integer, p_runs json,
  p_parallel integer default null
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_path text := p_step ->> 'path';
  v_state text;
  v_root uuid;
  v_fresh json;
  v_ids uuid[];
  v_places integer[];
  v_held uuid[] := '{}';
  v_free integer;
  v_moves windlass.move[];
begin
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_id and l.token = p_token for update;
  if not found then
    return json_build_object('lost', true);
  end if;
  if p_step ->> 'kind' is null or p_step ->> 'kind' not in ('child', 'children') then
    perform windlass.refuse('start_children', 'kind', 'is not child or children');
  elsif p_parallel < 1 then
    perform windlass.refuse('start_children', 'parallel', 'is not positive');
  elsif position('"after"' in p_runs::text) > 0
        and exists (select 1 from json_array_elements(p_runs) as x(run)
                     where json_array_length(x.run -> 'after') > 0) then
    perform windlass.refuse('start_children', 'after', 'children cannot have');
  end if;
  select s.state into v_state from windlass.record_steps(json_build_array(
    p_step::jsonb || jsonb_build_object('tenant', p_tenant, 'id', p_id, 'token', p_token,
                                        'state', 'waiting'))) s;
  -- Whoever lets held ones go has this locked.
  perform 1 from windlass.steps s
    where s.tenant = p_tenant and s.run = p_id and s.generation = 0 and s.path = v_path for update;
  if v_state = 'waiting' then
    select json_agg(x.run order by x.n), array_agg((x.run ->> 'id')::uuid order by x.n),
           array_agg((p_first + x.n - 1)::integer order by x.n)
      into v_fresh, v_ids, v_places
      from json_array_elements(p_runs) with ordinality as x(run, n)
     where not exists (select 1 from windlass.children c
                        where c.parent = p_id and c.tenant = p_tenant and c.generation = 0
                          and c.path = v_path and c.n = p_first + x.n - 1);
  end if;
  if v_ids is not null then
    perform windlass.enqueue_many(v_fresh, false);
    if p_parallel is not null then
      select greatest(0, p_parallel - count(*)) into v_free from windlass.children c
       where c.parent = p_id and c.tenant = p_tenant and c.generation = 0 and c.path = v_path
         and c.state = 'live';
      v_held := v_ids[v_free + 1:];
    end if;
    select coalesce((select c.root from windlass.children c
                      where c.tenant = p_tenant and c.id = p_id), p_id) into v_root;
    insert into windlass.children (tenant, id, parent, root, path, n, state)
    select p_tenant, x.id, p_id, v_root, v_path, x.n,
           case when x.id = any (v_held) then 'held' else 'live' end
      from unnest(v_ids, v_places) as x(id, n);
    update windlass.runs r set links = 1
      from unnest(v_ids) as x(id) where r.tenant = p_tenant and r.id = x.id;
    update windlass.runs r set links = coalesce(r.links, 0) | 2
     where r.tenant = p_tenant and r.id = p_id and coalesce(r.links & 2, 0) = 0;
    with taken as (
      delete from windlass.ready q using unnest(v_held) as x(id)
       where q.tenant = p_tenant and q.id = x.id returning q.*
    )
    select array_agg(windlass.move_from_ready(t::windlass.ready, 'hold')) into v_moves
      from taken t;
    for v_n in 1 .. coalesce(cardinality(v_moves), 0) loop
      v_moves[v_n].at := 'infinity';
    end loop;
    perform windlass.make_moves(v_moves, windlass.now());
    perform pg_notify('windlass', '');
  end if;
  return json_build_object(
    'started', (select count(*) from windlass.children c
                 where c.parent = p_id and c.tenant = p_tenant and c.generation = 0
                   and c.path = v_path),
    'ready', (select coalesce(json_agg(x.id), '[]') from unnest(v_ids) as x(id)
               where not x.id = any (v_held)));
end
$$;
