-- A step in the caller's own transaction: its record and whatever else that writes are committed together,
-- or not at all. First without p_step, before the step is done: the run is locked, and the step is
-- returned if it is recorded already. Then with it (see windlass.record_steps), to record it. Under a
-- token that is not the lease's this raises WL013, so that the transaction cannot be committed.
create or replace function windlass.join_step(
  p_tenant text, p_id uuid, p_token bigint, p_path text, p_step json default null
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set timezone = 'UTC'
set extra_float_digits = 1
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_found json;
begin
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_id and l.token = p_token for update;
  if not found then
    raise exception 'the lease with token % on run % is lost', p_token, p_id
      using errcode = 'WL013', detail = json_build_array(p_id, p_token)::text;
  end if;
  if p_step is not null then
    perform windlass.record_steps(json_build_array(
      p_step::jsonb || jsonb_build_object('tenant', p_tenant, 'id', p_id, 'token', p_token,
                                          'path', p_path)));
  end if;
  select json_strip_nulls(to_json(s)) into v_found
    from (select s.path, s.kind, s.state, s.seq, s.attempt, s.failures, s.started_at, s.at, s.until,
                 s.input, s.signal, s.error, s.generation
            from windlass.steps s
           where s.tenant = p_tenant and s.run = p_id and s.generation = 0 and s.path = p_path) s;
  if v_found is null then
    return null;
  end if;
  return json_build_object('step', v_found, 'value',
                           (select s.value from windlass.steps s
                             where s.tenant = p_tenant and s.run = p_id and s.generation = 0
                               and s.path = p_path));
end
$$;
