-- Answer an approval that a run has asked for, by the path of its step. The first answer counts. Outcomes:
--   answered   this one
--   known      it was answered before: `answer` is what counts
--   expired    its time is over
--   unknown    the run asks no such question
--   refused    p_token, the hash of a token, is not that of the question
--   select * from windlass.answer_approval('default', '…', 'approval', true, 'ann', 'go ahead');
create or replace function windlass.answer_approval(
  p_tenant text, p_id uuid, p_path text, p_approved boolean, p_by text default null,
  p_comment text default null, p_token text default null, p_actor text default null
) returns table (outcome text, answer json)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_step record;
  v_now timestamptz;
  v_told json;
begin
  if p_approved is null then
    perform windlass.refuse('answer_approval', 'approved', 'is null: it is true or false');
  end if;
  perform windlass.check_words('answer_approval', 'by', p_by, 200);
  perform windlass.check_words('answer_approval', 'comment', p_comment, 10000);
  -- Answers stay as they are, also when the run has ended. If there is none yet, the run is locked, and
  -- looked at in the next statement: nobody lets its time run out meanwhile.
  for v_round in 1..2 loop
    if v_round = 2 then
      perform windlass.hold_live(p_tenant, p_id, 'signal');
    end if;
    select s.state, s.signal, s.until, s.input::json ->> 'token' as token into v_step
      from windlass.steps s
     where s.tenant = p_tenant and s.run = p_id and s.generation = 0 and s.path = p_path
       and s.kind = 'approval';
    continue when not found;
    if p_token is not null and p_token is distinct from v_step.token then
      return query select 'refused', null::json;
      return;
    end if;
    select g.payload into v_told from windlass.signals g
     where g.key is not null  -- as one value, so that only the index of keys serves it
       and (g.key, g.tenant, g.run, g.name) >= ('answer', p_tenant, p_id, v_step.signal)
       and (g.key, g.tenant, g.run, g.name) <= ('answer', p_tenant, p_id, v_step.signal);
    if found then
      return query select 'known', v_told;
      return;
    end if;
  end loop;
  if v_step.signal is null then
    return query select 'unknown', null::json;
    return;
  end if;
  v_now := windlass.now();
  if v_step.state <> 'waiting' or v_step.until <= v_now then
    return query select 'expired', null::json;
    return;
  end if;
  v_told := json_strip_nulls(json_build_object(
    'approved', p_approved, 'at', windlass.iso(v_now), 'by', p_by, 'comment', p_comment));
  perform windlass.send_signal(p_tenant, p_id, v_step.signal, v_told, 'answer');
  perform windlass.note_audit(p_tenant, 'run', p_id::text,
                              case when p_approved then 'approve' else 'reject' end,
                              coalesce(p_by, p_actor), p_comment,
                              json_build_object('name', p_path));
  return query select 'answered', v_told;
end
$$;
