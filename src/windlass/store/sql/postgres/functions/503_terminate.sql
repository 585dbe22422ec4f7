-- End a run now. One that is running loses its lease: its handler is told that it is lost, and nothing that
-- it still does can be recorded. Harmless to repeat; one that had ended otherwise raises WL002, an unknown
-- one WL001. Returns the run.
create or replace function windlass.terminate(
  p_tenant text, p_id uuid, p_reason text default null, p_by text default null
)
returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  perform windlass.end_now(p_tenant, p_id,
                           coalesce(windlass.check_words('terminate', 'reason', p_reason, 10000),
                                    'terminated'));
  -- The shards of a batch end with it, also if it was canceled before, and one of them does not react.
  update windlass.batches b set forced = true where b.tenant = p_tenant and b.run = p_id;
  if found then
    insert into windlass.wakes (tenant, run) values (p_tenant, p_id);
  end if;
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'terminate', p_by, p_reason, null);
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;

-- The same for its batch, which is no operator.
create or replace function windlass.end_now(p_tenant text, p_id uuid, p_reason text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_move windlass.move;
  v_lease windlass.leases;
  v_status text;
begin
  -- It may move between two looks, see windlass.stop_run.
  for v_round in 1..20 loop
    v_move := windlass.take_waiting(p_tenant, p_id, 'terminate');
    exit when v_move.id is not null;
    delete from windlass.leases l where l.tenant = p_tenant and l.id = p_id returning * into v_lease;
    if found then
      v_move := windlass.move_from_lease(v_lease, 'terminate');
      exit;
    end if;
    select r.status into v_status from windlass.runs r where r.tenant = p_tenant and r.id = p_id;
    if not found then
      raise exception 'there is no run %', p_id
        using errcode = 'WL001', detail = json_build_array(p_id)::text;
    elsif v_status in ('succeeded', 'failed') then
      perform windlass.refuse_verb(p_id, v_status, 'terminate');
    end if;
    exit when v_status is not null;
  end loop;
  if v_move.id is not null then
    v_move.reason := p_reason;
    perform windlass.make_moves(array[v_move], windlass.now());
  elsif v_status is null then
    raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
  end if;
end
$$;
