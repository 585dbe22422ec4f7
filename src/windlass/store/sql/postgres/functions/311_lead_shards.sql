-- Shards follow their batch: they pause with it, and go on with it; at most p_limit now, and what is left, or
-- locked, at the next look. Returns the shards that may be claimed now; null: the batch is paused, so none
-- that is held may go. Of a run that is no batch there is nothing to do.
--
-- Whoever looks has the row of the batch locked, and only then sees whether it is paused: of two looks, one
-- before a resume and one after, the second sees what the first has done. So does a split, which adds shards.
create or replace function windlass.lead_shards(p_tenant text, p_run uuid, p_limit integer)
returns uuid[]
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_paused boolean;
  v_found uuid[];
  v_id uuid;
  v_held uuid[];
  v_told boolean := false;
  v_ready uuid[] := '{}';
begin
  if not exists (select 1 from windlass.batches b where b.tenant = p_tenant and b.run = p_run) then
    return v_ready;
  end if;
  perform 1 from windlass.batches b
    where b.tenant = p_tenant and b.run = p_run for update skip locked;
  if not found then
    insert into windlass.wakes (tenant, run) values (p_tenant, p_run);
    return null;
  end if;
  v_paused := exists (select 1 from windlass.timers t
                       where t.tenant = p_tenant and t.id = p_run and t.why = 'paused');
  if v_paused then
    v_found := array(
      select c.id from windlass.children c
       where c.parent = p_run and c.tenant = p_tenant and c.generation = 0 and c.path = 'shards'
         and c.state = 'live' and not c.paused
         and not exists (select 1 from windlass.timers t
                          where t.tenant = c.tenant and t.id = c.id and t.why = 'paused')
         and not exists (select 1 from windlass.leases l
                          where l.tenant = c.tenant and l.id = c.id and l.intent is not null)
       limit p_limit + 1);
  else
    update windlass.children c set paused = false
     where c.parent = p_run and c.tenant = p_tenant and c.paused and c.state = 'ended';
    v_found := array(select c.id from windlass.children c
                      where c.parent = p_run and c.tenant = p_tenant and c.paused
                      limit p_limit + 1);
  end if;
  v_held := windlass.hold_runs(p_tenant, v_found[1:p_limit]);
  foreach v_id in array v_held loop
    update windlass.children c set paused = v_paused
     where c.tenant = p_tenant and c.id = v_id and c.state <> 'ended';
    continue when not found;
    if v_paused then
      v_told := windlass.pause_run(p_tenant, v_id, 'its batch was paused') or v_told;
    elsif windlass.resume_run(p_tenant, v_id) then
      v_ready := v_ready || v_id;
    end if;
  end loop;
  if cardinality(v_held) < cardinality(v_found) then
    insert into windlass.wakes (tenant, run) values (p_tenant, p_run);
  end if;
  if v_told then
    perform pg_notify('windlass', '');  -- so that their workers ask for orders now
  end if;
  return case when not v_paused then v_ready end;
end
$$;
