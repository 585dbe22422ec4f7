-- Send a signal, as windlass.signal does, by whoever it is: that is noted there.
--
-- A run that waits for it is made ready. The p_key of a signal
-- that was sent before, under that name, returns that one, and sends nothing. Signals of a name answer
-- the steps that wait for it one by one, in the order in which they came, early ones too.
create or replace function windlass.send_signal(
  p_tenant text, p_id uuid, p_name text, p_payload json default 'null', p_key text default null
) returns table (number integer, name text, at timestamptz, payload json, key text, taken_by text,
                 created boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_place record;
  v_seq integer;
  v_now timestamptz;
  v_timer windlass.timers;
begin
  if p_name is null or octet_length(p_name) not between 1 and 1000 then
    perform windlass.refuse('signal', 'name', 'is not a text of 1 to 1000 bytes');
  end if;
  perform windlass.check_key('signal', p_key);
  perform windlass.check_json('payload', array[coalesce(p_payload, 'null')]);
  select h.place, h.seq, h.attempt into v_place from windlass.hold_live(p_tenant, p_id, 'signal') h;
  if p_key is not null then
    return query
      select g.number, g.name, g.at, g.payload, g.key, g.taken_by, false from windlass.signals g
       where g.key is not null  -- as one value, so that only the index of keys serves it
         and (g.key, g.tenant, g.run, g.name) >= (p_key, p_tenant, p_id, p_name)
         and (g.key, g.tenant, g.run, g.name) <= (p_key, p_tenant, p_id, p_name);
    if found then
      return;
    end if;
  end if;
  v_seq := v_place.seq + 1;
  v_now := windlass.now();
  case v_place.place
    when 'ready' then
      update windlass.ready q set seq = v_seq where q.tenant = p_tenant and q.id = p_id;
    when 'timers' then
      update windlass.timers t set seq = v_seq where t.tenant = p_tenant and t.id = p_id;
    else
      update windlass.leases l set seq = v_seq where l.tenant = p_tenant and l.id = p_id;
  end case;
  insert into windlass.signals (tenant, run, number, name, key, payload, at)
  values (p_tenant, p_id, v_seq, p_name, p_key, coalesce(p_payload, 'null'), v_now);
  insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
  values (p_tenant, p_id, v_seq, 'run.signaled', v_now, v_place.attempt,
          json_build_object('name', p_name, 'number', v_seq));
  if v_place.place = 'timers' then
    delete from windlass.timers t
     where t.tenant = p_tenant and t.id = p_id and t.why = 'wait'
       and windlass.is_answered(p_tenant, p_id, t.waits)
    returning * into v_timer;
    if found then
      perform windlass.make_moves(array[windlass.move_from_timer(v_timer, 'due')], v_now);
    end if;
  end if;
  return query select v_seq, p_name, v_now, coalesce(p_payload, 'null'), p_key, null::text, true;
end
$$;

-- Send a signal to a run that has not ended; one that waits for it is made ready. The p_key of a signal
-- that was sent before, under that name, returns that one, and sends nothing. p_by: who sends it.
--   select * from windlass.signal('default', '…', 'paid', '{"amount": 7}');
create or replace function windlass.signal(
  p_tenant text, p_id uuid, p_name text, p_payload json default 'null', p_key text default null,
  p_by text default null
) returns table (number integer, name text, at timestamptz, payload json, key text, taken_by text,
                 created boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
#variable_conflict use_column
begin
  select s.* into number, name, at, payload, key, taken_by, created
    from windlass.send_signal(p_tenant, p_id, p_name, p_payload, p_key) s;
  if created then
    perform windlass.note_audit(p_tenant, 'run', p_id::text, 'signal', p_by, null,
                                json_build_object('name', p_name));
  end if;
  return next;
end
$$;
