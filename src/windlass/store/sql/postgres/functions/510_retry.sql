-- Reopen a failed, canceled or stale run: queued, with a fresh budget. Token, attempt and seq
-- go on; failures and crash_count start at zero. p_input: what it starts with from now on. Returns the run.
create or replace function windlass.retry(
  p_tenant text, p_id uuid, p_max_attempts integer default null, p_input json default null,
  p_by text default null
) returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_move windlass.move;
  v_input json;
begin
  if p_max_attempts not between 1 and 1000000 then  -- as for windlass.check_options
    raise exception 'p_max_attempts must be of 1 to 1000000'
      using errcode = 'WL005',
            detail = json_build_array('retry', 'takes max_attempts of 1 to 1,000,000',
                                      'max_attempts')::text;
  end if;
  -- It may move between two looks, see windlass.stop_run.
  for v_round in 1..20 loop
    v_move := windlass.reopen_run(p_tenant, p_id, 'retry', p_max_attempts);
    exit when v_move.id is not null;
    perform windlass.check_verb(p_tenant, p_id, 'retry');
  end loop;
  if v_move.id is null then
    raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
  end if;
  if p_input is not null then
    v_input := windlass.edit_input('retry', p_tenant, p_id, p_input);
  end if;
  perform windlass.let_go(p_tenant, p_id, v_move.job);
  v_move.data := (select json_object_agg(d.name, d.value)
                    from (values ('max_attempts', to_json(p_max_attempts)), ('input', v_input))
                           as d(name, value)
                   where d.value is not null);
  perform windlass.make_moves(array[v_move], windlass.now());
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'retry', p_by, null,
                              case when p_input is not null
                                   then json_build_object('changed', json_build_array('input')) end);
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;
