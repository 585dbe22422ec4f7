-- Whether a schedule is stored as it is given: nothing would be written.
create or replace function windlass.is_stored(
  p_stored windlass.schedules, p_new windlass.schedules
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return (p_stored.job, p_stored.rule::jsonb, p_stored.input::jsonb, p_stored.options::jsonb,
          p_stored.overlap)
         = (p_new.job, p_new.rule::jsonb, p_new.input::jsonb, p_new.options::jsonb, p_new.overlap)
         and (p_new.key is null or p_stored.key is not distinct from p_new.key)
         -- One that is no time in every calendar must be stored anew.
         and coalesce(p_stored.next_slot between '0001-01-01Z' and '9999-12-31Z', true);
end
$$;

-- Store one schedule; see windlass.put_schedules. p_new carries the definition, its id and key,
-- and, of a new one, whether it is enabled; the rest of it is of no account.
create or replace function windlass.put_schedule(
  p_new windlass.schedules, out what text, out stored windlass.schedules
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_now timestamptz;
  v_same boolean;
begin
  loop
    stored := null;
    if p_new.key is not null then
      select * into stored from windlass.schedules s
       where s.tenant = p_new.tenant and s.key = p_new.key;
    end if;
    if stored.id is null then
      select * into stored from windlass.schedules s
       where s.tenant = p_new.tenant and s.id = p_new.id;
    elsif stored.id <> p_new.id and exists (select 1 from windlass.schedules s
                                             where s.tenant = p_new.tenant and s.id = p_new.id)
    then
      what := 'taken';
      return;
    end if;

    if stored.id is null then
      insert into windlass.schedules (tenant, id, key, job, rule, input, options, overlap, enabled,
                                      origin, next_slot, seq, created_at, updated_at)
      select p_new.tenant, p_new.id, p_new.key, p_new.job, p_new.rule, p_new.input,
             p_new.options, p_new.overlap, p_new.enabled, p_new.origin,
             case when p_new.enabled then p_new.next_slot end,
             -- An id that was deleted goes on with its numbers, and is younger than their events.
             1 + coalesce((select e.seq from windlass.event_rows e
                            where e.tenant = p_new.tenant and e.subject = p_new.id
                            order by e.seq desc limit 1), 0),
             t.now, t.now
        from (select windlass.now() as now offset 0) t
      on conflict do nothing
      returning * into stored;
      continue when not found;  -- somebody else was first: look again
      -- What is left of one that had this id and was deleted is not this one's.
      delete from windlass.schedule_gone g
       where g.tenant = stored.tenant and g.schedule = stored.id;
      if found then
        perform windlass.drop_slots(stored.tenant, stored.id, null);
      end if;
      what := 'created';
      insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
      values (stored.tenant, stored.id, stored.seq, 'schedule.created', stored.created_at, 0,
              json_build_object('job', stored.job));
      return;
    end if;

    v_same := windlass.is_stored(stored, p_new);
    if v_same and stored.origin = p_new.origin then
      what := 'unchanged';
      return;
    end if;
    -- The version tells whether it is still what was compared; if not, look again. The time is
    -- taken once the row is ours: a schedule's events do not go back.
    perform 1 from windlass.schedules s
      where s.tenant = stored.tenant and s.id = stored.id and s.version = stored.version
        for no key update;
    continue when not found;
    v_now := windlass.now();
    update windlass.schedules s
       set key = coalesce(p_new.key, s.key), job = p_new.job, rule = p_new.rule,
           input = p_new.input, options = p_new.options, overlap = p_new.overlap,
           origin = p_new.origin,
           next_slot = case when v_same then s.next_slot
                            when s.enabled then p_new.next_slot end,
           version = s.version + (not v_same)::integer, seq = s.seq + (not v_same)::integer,
           updated_at = v_now
     where s.tenant = stored.tenant and s.id = stored.id
    returning * into stored;
    what := case when v_same then 'unchanged' else 'changed' end;
    if not v_same then
      insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
      values (stored.tenant, stored.id, stored.seq, 'schedule.changed', v_now, 0,
              json_build_object('version', stored.version));
    end if;
    return;
  end loop;
end
$$;
