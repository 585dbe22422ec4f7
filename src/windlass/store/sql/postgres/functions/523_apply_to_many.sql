-- Apply a verb to several runs, fifty at most, each as the verb's own function does: cancel, retry,
-- reschedule, reprioritize, change, discard, with their arguments by name. A run that refuses does not undo the
-- others: it comes back with the SQLSTATE and the DETAIL of its refusal. It waits for no run that
-- somebody else has locked; that comes back with 55P03, as it is.
--   select * from windlass.apply_to_many('cancel', 'default', array['…']::uuid[], '{"reason": "old"}');
create or replace function windlass.apply_to_many(
  p_verb text, p_tenant text, p_ids uuid[], p_arguments json default '{}'
) returns table (id uuid, status text, refusal text, detail text)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  c_most constant integer := 50;
  v_held uuid[];
  v_waited boolean := false;
begin
  if cardinality(p_ids) > c_most then
    perform windlass.refuse('apply_to_many', 'ids', 'are more than 50');
  end if;
  v_held := windlass.hold_runs(p_tenant, p_ids);
  -- A key that is new to the store may have to be waited for. They are taken in the order in which
  -- whoever enqueues takes them.
  for id in
    select n.id
      from (select distinct unnest(p_ids) as id) n
      left join lateral (select x.job, x.key from windlass.runs x
                          where x.tenant = p_tenant and x.id = n.id limit 1) r on true
     order by r.job, r.key, n.id
  loop
    status := null;
    refusal := null;
    detail := null;
    if v_waited or (id <> all (v_held) and windlass.has_ended(p_tenant, id) is not null) then
      refusal := '55P03';
    else
      begin
        status := windlass.apply_verb(p_verb, p_tenant, id, p_arguments);
      exception
        when sqlstate 'WL001' or sqlstate 'WL002' or sqlstate 'WL004' or sqlstate 'WL011'
             or sqlstate 'WL012' or sqlstate 'WL014' then
          get stacked diagnostics refusal = returned_sqlstate, detail = pg_exception_detail;
        when lock_not_available or deadlock_detected or serialization_failure then
          refusal := '55P03';
          -- Whoever waits for what we hold has waited long enough.
          v_waited := true;
      end;
    end if;
    return next;
  end loop;
end
$$;
