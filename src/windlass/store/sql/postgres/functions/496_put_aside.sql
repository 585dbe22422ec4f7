-- Pause a run that is in its queue or has a timer; it remembers what its timer was. Returns its status;
-- null: it is not there. A child that its siblings held back goes to its queue when it is resumed.
create or replace function windlass.put_aside(p_tenant text, p_id uuid, p_reason text)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_move windlass.move := windlass.take_waiting(p_tenant, p_id, 'pause');
begin
  if v_move.id is null then
    return null;
  end if;
  -- A run that comes after others goes on waiting for them when it is resumed.
  if v_move.status <> 'queued'
     and (v_move.why <> 'held'
          or exists (select 1 from windlass.follows f where f.tenant = p_tenant and f.id = p_id)) then
    v_move.was_why := v_move.why;
    v_move.was_due_at := v_move.at;
  end if;
  v_move.at := 'infinity';
  v_move.data := case when p_reason is not null then json_build_object('reason', p_reason) end;
  -- If it is a batch, its shards are to follow.
  insert into windlass.wakes (tenant, run)
  select b.tenant, b.run from windlass.batches b where b.tenant = p_tenant and b.run = p_id;
  return (select m.status from windlass.make_moves(array[v_move], windlass.now()) as m(status));
end
$$;
