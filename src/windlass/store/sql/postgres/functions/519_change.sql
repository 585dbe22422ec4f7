-- Change a run that waits: p_changes may have input, tags, timeout, expires_in or expires_at, deadline_in or
-- deadline_at; lengths in seconds. What it does not name stays as it is, null takes it away.
--   select * from windlass.change('default', '…', '{"input": {"user_id": 8}, "deadline_at": null}');
-- The run keeps its place, its time and its counts, and its key answers for the input that it was enqueued
-- with. An expiry or a deadline that comes before it can start raises WL004. A run that is running or has
-- ended raises WL002, an unknown one WL001. Harmless to repeat. Returns the run.
create or replace function windlass.change(
  p_tenant text, p_id uuid, p_changes json, p_by text default null
)
returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_now timestamptz;
  v_start timestamptz;
  v_over timestamptz;
  v_move windlass.move;
  v_run windlass.runs;
  v_input json;
  v_tags json;
  v_timeout json;
  v_expires json;
  v_deadline json;
begin
  perform windlass.check_changes(p_changes);
  -- It may move between two looks, see windlass.stop_run.
  for v_round in 1..20 loop
    v_move := windlass.take_waiting(p_tenant, p_id, 'change');
    exit when v_move.id is not null;
    perform windlass.check_verb(p_tenant, p_id, 'change');
  end loop;
  if v_move.id is null then
    raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
  end if;
  -- Once the position is ours: nobody else changes the record now, and a claim finds the run again only
  -- with all that is written here.
  v_now := windlass.now();
  -- What waits for a signal, or is paused, may go on at any time.
  v_start := case when v_move.status in ('waiting', 'paused') then v_now else greatest(v_now, v_move.at) end;
  select * into v_run from windlass.runs r where r.tenant = p_tenant and r.id = p_id;
  if p_changes -> 'input' is not null then
    v_input := windlass.edit_input('change', p_tenant, p_id, p_changes -> 'input');
  end if;
  if p_changes -> 'tags' is not null then
    v_tags := windlass.edit_tags(v_run, p_changes -> 'tags');
  end if;
  if p_changes -> 'timeout' is not null then
    v_timeout := windlass.edit_timeout(v_run, p_changes -> 'timeout');
  end if;
  if p_changes -> 'expires_in' is not null or p_changes -> 'expires_at' is not null then
    v_move.expires_at := windlass.changed_time(v_now, p_changes, 'expires');
    v_over := v_move.expires_at;
    v_expires := windlass.told_change(to_json(windlass.iso(v_run.expires_at)),
                                      to_json(windlass.iso(v_move.expires_at)));
    update windlass.runs r set expires_at = v_move.expires_at
     where r.tenant = p_tenant and r.id = p_id;
  end if;
  if p_changes -> 'deadline_in' is not null or p_changes -> 'deadline_at' is not null then
    v_move.deadline_at := windlass.changed_time(v_now, p_changes, 'deadline');
    v_over := least(v_over, v_move.deadline_at);
    v_deadline := windlass.told_change(to_json(windlass.iso(v_run.deadline_at)),
                                       to_json(windlass.iso(v_move.deadline_at)));
    update windlass.runs r set deadline_at = v_move.deadline_at
     where r.tenant = p_tenant and r.id = p_id;
  end if;
  if v_over <= v_start then
    raise exception 'run % would end at %, it cannot wait until %', p_id, v_over, v_start
      using errcode = 'WL004', detail = json_build_array(
        p_id, windlass.iso(v_over), windlass.iso(v_start))::text;
  end if;
  v_move.data := coalesce((select json_object_agg(d.name, d.value)
                             from (values ('input', v_input), ('tags', v_tags),
                                          ('timeout', v_timeout), ('expires_at', v_expires),
                                          ('deadline_at', v_deadline)) as d(name, value)
                            where d.value is not null), '{}');
  perform windlass.make_moves(array[v_move], v_now);
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'change', p_by, null,
                              (select json_build_object('changed', json_agg(k order by k))
                                 from json_object_keys(p_changes) k));
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;

-- The instant that changes choose for an expiry or a deadline; null: there is to be none.
create or replace function windlass.changed_time(
  p_now timestamptz, p_changes json, p_name text
) returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return coalesce(
    p_now + windlass.check_length('change', p_name || '_in',
                                  windlass.to_float(p_changes -> (p_name || '_in'))),
    windlass.to_instant('change', p_name || '_at', p_changes ->> (p_name || '_at')));
end
$$;
