-- Dispatcher, expiry and reaper in one round trip, each only if asked for. Returns {"now",
-- "dispatched": [{"tenant", "id"}, …], "expired", "overrun", "reaped", "crashed", "workers",
-- "spared", "next_due", "more"}.
--
-- Nobody is reaped, and no run ends by its expiry or deadline, for two thirds of a lease after a gap
-- in which nobody swept: an outage is no crash of the workers. "spared" counts the workers of which
-- that is true now. p_every is how often you sweep, in seconds, where that is less often than every
-- third of the shortest lease. p_spare => false takes everybody for dead whose time is over: for
-- tests that set the clock, and for those who know.
create or replace function windlass.sweep(
  p_dispatch boolean default true, p_expire boolean default true, p_reap boolean default true,
  p_max_crashes integer default 3, p_limit integer default 500,
  p_every double precision default 0, p_spare boolean default true
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_sort = off
as $$
declare
  v_dispatched json;
  v_expired integer := 0;
  v_overrun integer := 0;
  v_reap json;
  -- What is over is judged by one instant, taken first: should anything below have to wait, nobody
  -- could renew meanwhile.
  v_now timestamptz := windlass.now();
  v_certain timestamptz;
  v_due timestamptz;
begin
  begin
    v_certain := windlass.note_sweep(v_now);
    if p_expire then
      v_expired := windlass.expire(p_limit, case when p_spare then v_certain else v_now end);
      v_overrun := windlass.overrun(p_limit, case when p_spare then v_certain else v_now end);
    end if;
    if p_reap then
      v_reap := windlass.reap(p_max_crashes, p_limit, v_now,
                              windlass.check_length('sweep', 'every', coalesce(p_every, 0)),
                              p_spare);
    end if;
  exception when lock_not_available then
    v_expired := 0;  -- somebody has a table locked: timers go on
    v_overrun := 0;
    v_reap := null;
  end;
  if p_dispatch then
    v_now := windlass.now();
    select json_agg(json_build_object('tenant', d.tenant, 'id', d.id)) into v_dispatched
      from (select d.tenant, d.id from windlass.dispatch(p_limit) d
            union all
            select t.tenant, t.id from windlass.tend(p_limit) t) d;
    -- What was due before, somebody else has locked: it is found at the next look. What is due
    -- beyond the years that clients know is nothing to wait for.
    select t.due_at into v_due from windlass.timers t
     where t.due_at > v_now and t.due_at < '9999-12-31Z' order by t.due_at limit 1;
    if exists (select 1 from windlass.wakes) then
      v_due := least(v_due, v_now + interval '25 ms');
    end if;
  end if;
  return json_build_object(
    'now', windlass.now(), 'dispatched', v_dispatched, 'expired', v_expired,
    'overrun', v_overrun,
    'reaped', coalesce((v_reap ->> 'reaped')::integer, 0),
    'crashed', coalesce((v_reap ->> 'crashed')::integer, 0),
    'workers', v_reap -> 'workers',
    'spared', coalesce((v_reap ->> 'spared')::integer, 0), 'next_due', v_due,
    'more', coalesce(json_array_length(v_dispatched), 0) >= p_limit
            or greatest(v_expired, v_overrun) >= p_limit or coalesce((v_reap ->> 'more')::boolean, false));
end
$$;
