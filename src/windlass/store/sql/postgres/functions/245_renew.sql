-- Keep a worker alive for p_lease seconds from now. Returns {"now", "alive", "orders": [intents
-- for its runs], "lost": [runs it named but does not hold], "released": n}.
-- Leases it does not name, of claims numbered up to p_settled, are given back: their claim's
-- reply never arrived, or the worker cannot vouch for them. A worker whose lease ran out but whom
-- nobody reaped is revived; one that was reaped has lost everything.
--
-- p_blocked, {"seconds", "tenant", "run", "blamed": [ends]}: the worker's event loop has not answered
-- for so long; the run blocks it, if that is known. Of the leases that are given back, those that are
-- blamed end as windlass.finish does it with these ends, outcome crashed: that counts.
create or replace function windlass.renew(
  p_worker text, p_lease double precision,
  p_tenants text[] default '{}', p_ids uuid[] default '{}', p_tokens bigint[] default '{}',
  p_settled bigint default 0, p_blocked json default null
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_now timestamptz := windlass.now();
  v_worker_no integer;
  v_released integer;
  v_orders json;
  v_lost json;
begin
  update windlass.workers w
     set renewed_at = v_now,
         alive_until = v_now + windlass.check_length('renew', 'lease', p_lease),
         blocked_since = case when p_blocked is not null
                              then coalesce(w.blocked_since,
                                            v_now - windlass.check_length('renew', 'seconds',
                                              (p_blocked ->> 'seconds')::double precision)) end,
         blocked_tenant = p_blocked ->> 'tenant',
         blocked_run = p_blocked ->> 'run'
   where w.id = p_worker
  returning w.worker_no into v_worker_no;
  if not found then
    select json_agg(json_build_object('tenant', h.tenant, 'id', h.id, 'token', h.token))
      into v_lost
      from unnest(p_tenants, p_ids, p_tokens) as h(tenant, id, token);
    return json_build_object('now', v_now, 'alive', false, 'lost', v_lost);
  end if;
  begin
    v_released := windlass.give_back(v_worker_no, p_settled, p_tenants, p_ids, p_tokens,
                                     p_blocked -> 'blamed');
  exception when lock_not_available then
    v_released := 0;  -- they are given back another time; the worker must live on
  end;
  select json_agg(json_build_object('tenant', l.tenant, 'id', l.id, 'token', l.token,
                                    'intent', l.intent, 'reason', l.reason))
    into v_orders
    from windlass.leases l
   where l.worker_no = v_worker_no and l.intent is not null;
  select json_agg(json_build_object('tenant', h.tenant, 'id', h.id, 'token', h.token))
    into v_lost
    from unnest(p_tenants, p_ids, p_tokens) as h(tenant, id, token)
   where (select true from windlass.leases l
           where l.tenant = h.tenant and l.id = h.id and l.token = h.token
             and l.worker_no = v_worker_no limit 1) is null;
  return json_build_object('now', v_now, 'alive', true, 'orders', v_orders, 'lost', v_lost,
                           'released', v_released);
end
$$;
