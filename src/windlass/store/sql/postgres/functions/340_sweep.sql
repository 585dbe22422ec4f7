-- Dispatcher, expiry and reaper in one round trip, each only if asked for. Returns {"now",
-- "dispatched": [{"tenant", "id"}, …], "expired", "reaped", "crashed", "workers", "next_due",
-- "more"}.
--
-- p_believed is what time it is by the caller's own counting since it last heard. Where the clock is
-- further ahead than half of p_grace it was set, or the call came late: nothing expires and nobody
-- is reaped then, since nobody could renew by the new time yet.
create or replace function windlass.sweep(
  p_dispatch boolean default true, p_expire boolean default true, p_reap boolean default true,
  p_max_crashes integer default 3, p_limit integer default 500,
  p_grace double precision default 0, p_believed timestamptz default null
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_sort = off
as $$
declare
  v_dispatched json;
  v_expired integer := 0;
  v_reap json;
  v_now timestamptz;
  v_due timestamptz;
  v_steady boolean := p_believed is null
                      or windlass.now() <= p_believed + make_interval(secs => p_grace / 2);
begin
  if v_steady and (p_expire or p_reap) then
    begin
      if p_expire then
        v_expired := windlass.expire(p_limit);
      end if;
      -- After a restart of the server nobody could renew for a while: that is no crash of theirs.
      -- A start in the future means that the clock was set back, not that the server has just
      -- started.
      if p_reap
         and clock_timestamp() not between pg_postmaster_start_time()
                                   and pg_postmaster_start_time() + make_interval(secs => p_grace)
      then
        v_reap := windlass.reap(p_max_crashes, p_limit);
      end if;
      if windlass.now() > p_believed + make_interval(secs => p_grace / 2) then
        raise exception 'the clock was set during a sweep' using errcode = 'WL009';
      end if;
    exception when sqlstate 'WL009' then
      v_expired := 0;  -- undone: as if it had been seen before
      v_reap := null;
    end;
  end if;
  if p_dispatch then
    v_now := windlass.now();
    select json_agg(json_build_object('tenant', d.tenant, 'id', d.id)) into v_dispatched
      from windlass.dispatch(p_limit) d;
    -- What was due before, somebody else has locked: it is found at the next look. What is due
    -- beyond the years that clients know is nothing to wait for.
    select t.due_at into v_due from windlass.timers t
     where t.due_at > v_now and t.due_at < '9999-12-31Z' order by t.due_at limit 1;
  end if;
  return json_build_object(
    'now', windlass.now(), 'dispatched', v_dispatched, 'expired', v_expired,
    'reaped', coalesce((v_reap ->> 'reaped')::integer, 0),
    'crashed', coalesce((v_reap ->> 'crashed')::integer, 0),
    'workers', v_reap -> 'workers', 'next_due', v_due,
    'more', coalesce(json_array_length(v_dispatched), 0) >= p_limit
            or v_expired >= p_limit or coalesce((v_reap ->> 'more')::boolean, false));
end
$$;
