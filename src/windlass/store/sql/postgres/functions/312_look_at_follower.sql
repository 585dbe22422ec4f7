-- Decide a run that comes after others and was woken, if it can be decided (see domain/follower.py): it is
-- canceled, or becomes ready. Returns what became ready. The caller has its position, or nobody lets it go.
--
-- Nothing here is waited for. A record that is locked may be about to end: the wake is kept for the next look.
create or replace function windlass.look_at_follower(p_tenant text, p_run uuid)
returns windlass.move[]
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_follow record;
  v_status text;
  v_timer windlass.timers;
  v_move windlass.move;
begin
  if not exists (select 1 from windlass.follows f where f.tenant = p_tenant and f.id = p_run) then
    return '{}';
  end if;
  perform 1 from windlass.timers t
    where t.tenant = p_tenant and t.id = p_run and t.why = 'held' for update skip locked;
  if not found then
    return '{}';
  end if;
  for v_follow in
    select f.awaited from windlass.follows f
     where f.tenant = p_tenant and f.id = p_run and f.outcome is null order by f.awaited
  loop
    perform 1 from windlass.runs r
      where r.tenant = p_tenant and r.id = v_follow.awaited and r.status is null
        and coalesce(r.links & 4, 0) = 0 for no key update skip locked;
    if found then
      update windlass.runs r set links = coalesce(r.links, 0) | 4
       where r.tenant = p_tenant and r.id = v_follow.awaited;
    end if;
  end loop;
  -- In statements after those: whoever ended one before it was marked is done, or has it locked.
  update windlass.follows f
     set outcome = coalesce((select r.status from windlass.runs r
                              where r.tenant = p_tenant and r.id = f.awaited), 'deleted')
   where f.tenant = p_tenant and f.id = p_run and f.outcome is null
     and not exists (select 1 from windlass.runs r where r.tenant = p_tenant and r.id = f.awaited
                        and r.status is null);
  for v_follow in
    select f.n, f.awaited, f.argument from windlass.follows f
     where f.tenant = p_tenant and f.id = p_run and f.outcome = 'succeeded'
       and f.argument is not null
  loop
    v_status := windlass.take_result(p_tenant, p_run, v_follow.awaited, v_follow.argument);
    if v_status is distinct from 'succeeded' then
      -- Reopened since, or deleted: what it succeeded with is gone.
      update windlass.follows f set outcome = v_status
       where f.tenant = p_tenant and f.id = p_run and f.n = v_follow.n;
    end if;
  end loop;
  select f.awaited, f.outcome into v_follow from windlass.follows f
   where f.tenant = p_tenant and f.id = p_run and f.mode = 'cancel' and f.outcome <> 'succeeded'
   order by f.n limit 1;
  if found then
    perform windlass.stop_run(p_tenant, p_run, format('run %s, which it comes after, %s %s',
      v_follow.awaited, case when v_follow.outcome = 'failed' then 'has' else 'was' end,
      v_follow.outcome));
    return '{}';
  end if;
  if exists (select 1 from windlass.follows f
              where f.tenant = p_tenant and f.id = p_run and f.outcome is null) then
    if exists (select 1 from windlass.follows f
                 join lateral (select r.links from windlass.runs r
                                where r.tenant = p_tenant and r.id = f.awaited limit 1) r on true
                where f.tenant = p_tenant and f.id = p_run and f.outcome is null
                  and coalesce(r.links & 4, 0) = 0) then
      insert into windlass.wakes (tenant, run) values (p_tenant, p_run);
    end if;
    return '{}';
  end if;
  delete from windlass.timers t where t.tenant = p_tenant and t.id = p_run returning * into v_timer;
  v_move := windlass.move_from_timer(v_timer, 'due');
  perform windlass.make_moves(array[v_move], windlass.now());
  return array[v_move];
end
$$;

-- Put the result of a run that succeeded into the input of one that comes after it, unless that has the
-- argument. Returns the status of the former: null while it lives, deleted if there is none.
create or replace function windlass.take_result(
  p_tenant text, p_run uuid, p_awaited uuid, p_argument text
) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_status text;
  v_result json;
begin
  select r.status, r.result into v_status, v_result from windlass.runs r
   where r.tenant = p_tenant and r.id = p_awaited;
  if not found then
    return 'deleted';
  end if;
  if v_status = 'succeeded' then
    -- As text: numbers and texts stay as they were written.
    update windlass.runs r
       set input = ('{' || to_json(p_argument)::text || ':' || coalesce(v_result::text, 'null')
                    || case when r.input::text ~ '^\s*[{]\s*[}]\s*$' then '}'
                            else ',' || substr(ltrim(r.input::text, E' \t\r\n'), 2) end)::json
     where r.tenant = p_tenant and r.id = p_run and r.input -> p_argument is null;
  end if;
  return v_status;
end
$$;

-- Let a run go that comes after others, without waiting for them: an operator says so. Raises WL005 if it
-- takes a result that is not there. Any other run is left as it is.
create or replace function windlass.let_go(p_tenant text, p_run uuid, p_job text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_follow record;
begin
  for v_follow in
    select f.awaited, f.argument from windlass.follows f
     where f.tenant = p_tenant and f.id = p_run and f.argument is not null
  loop
    perform windlass.take_result(p_tenant, p_run, v_follow.awaited, v_follow.argument);
    if exists (select 1 from windlass.runs r
                where r.tenant = p_tenant and r.id = p_run and r.input -> v_follow.argument is null)
    then
      raise exception 'run % takes the result of run %', p_run, v_follow.awaited
        using errcode = 'WL005', detail = json_build_array(p_job, format(
          'takes the result of run %s as %s, and that has not succeeded: retry that run first, or give '
          'the input', v_follow.awaited, v_follow.argument), v_follow.argument)::text;
    end if;
  end loop;
end
$$;
