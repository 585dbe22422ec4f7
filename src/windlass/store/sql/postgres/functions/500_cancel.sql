-- End a run, or ask for its end (see windlass.stop_run). One that had ended otherwise raises
-- WL002; an unknown one WL001. Returns the run.
create or replace function windlass.cancel(
  p_tenant text, p_id uuid, p_reason text default null, p_by text default null
)
returns setof windlass.run_view
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_status text := windlass.stop_run(
    p_tenant, p_id, windlass.check_words('cancel', 'reason', p_reason, 10000));
begin
  if v_status is null then
    raise exception 'there is no run %', p_id
      using errcode = 'WL001', detail = json_build_array(p_id)::text;
  elsif v_status in ('succeeded', 'failed') then
    perform windlass.refuse_verb(p_id, v_status, 'cancel');
  end if;
  perform windlass.note_audit(p_tenant, 'run', p_id::text, 'cancel', p_by, p_reason, null);
  return query select * from windlass.get_runs(p_tenant, array[p_id]);
end
$$;
