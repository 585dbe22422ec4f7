-- Lock the position of a run that has not ended, for p_verb; says which table it is in, with its seq and
-- attempt. Raises WL001, and WL002 if the run has ended.
create or replace function windlass.hold_live(p_tenant text, p_id uuid, p_verb text)
returns table (place text, seq integer, attempt integer)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_place record;
  v_status text;
begin
  -- It may move between two looks, see windlass.stop_run. Its position is locked, so that it stays
  -- where it is until we are done: whoever lets it wait afterwards sees the signal.
  for v_round in 1..20 loop
    select x.place, x.seq, x.attempt into v_place
      from (select 'ready' as place, q.seq, q.attempt from windlass.ready q
             where q.tenant = p_tenant and q.id = p_id for update) x;
    exit when found;
    select x.place, x.seq, x.attempt into v_place
      from (select 'timers' as place, t.seq, t.attempt from windlass.timers t
             where t.tenant = p_tenant and t.id = p_id for update) x;
    exit when found;
    select x.place, x.seq, x.attempt into v_place
      from (select 'leases' as place, l.seq, l.attempt from windlass.leases l
             where l.tenant = p_tenant and l.id = p_id for update) x;
    exit when found;
    select r.status into v_status from windlass.runs r where r.tenant = p_tenant and r.id = p_id;
    if not found then
      raise exception 'there is no run %', p_id
        using errcode = 'WL001', detail = json_build_array(p_id)::text;
    elsif v_status is not null then
      perform windlass.refuse_verb(p_id, v_status, p_verb);
    end if;
  end loop;
  if v_place.place is null then
    raise exception 'run % keeps moving, try again', p_id using errcode = '40001';
  end if;
  return query select v_place.place, v_place.seq, v_place.attempt;
end
$$;
