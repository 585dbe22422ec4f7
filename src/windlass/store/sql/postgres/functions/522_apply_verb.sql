-- Apply a verb to one run of many, with the arguments of its function, and return the status that it
-- left the run in. A further verb is a further line here.
create or replace function windlass.apply_verb(
  p_verb text, p_tenant text, p_id uuid, p_arguments json
) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_run windlass.run_view;
begin
  case p_verb
    when 'cancel' then
      select * into v_run from windlass.cancel(
        p_tenant, p_id, p_arguments ->> 'reason', p_arguments ->> 'by');
    when 'pause' then
      select * into v_run from windlass.pause(
        p_tenant, p_id, p_arguments ->> 'reason', p_arguments ->> 'by');
    when 'resume' then
      -- Of those that run only what was asked to pause is meant.
      perform 1 from windlass.leases l
        where l.tenant = p_tenant and l.id = p_id and l.intent is distinct from 'pause';
      if found then
        perform windlass.refuse_verb(p_id, 'running', 'resume');
      end if;
      select * into v_run from windlass.resume(p_tenant, p_id, p_arguments ->> 'by');
    when 'terminate' then
      select * into v_run from windlass.terminate(
        p_tenant, p_id, p_arguments ->> 'reason', p_arguments ->> 'by');
    when 'restart' then
      select * into v_run from windlass.restart(
        p_tenant, p_id, p_arguments ->> 'step', p_arguments ->> 'by');
    when 'retry' then
      select * into v_run from windlass.retry(
        p_tenant, p_id, (p_arguments ->> 'max_attempts')::integer,
        p_by => p_arguments ->> 'by');
    when 'reschedule' then
      select * into v_run from windlass.reschedule(
        p_tenant, p_id, (p_arguments ->> 'at')::timestamptz,
        (p_arguments ->> 'delay')::double precision, p_arguments ->> 'by');
    when 'reprioritize' then
      select * into v_run from windlass.reprioritize(
        p_tenant, p_id, (p_arguments ->> 'priority')::integer, p_arguments ->> 'queue',
        p_arguments ->> 'by');
    when 'change' then
      select * into v_run from windlass.change(
        p_tenant, p_id, p_arguments -> 'changes', p_arguments ->> 'by');
    when 'discard' then
      if windlass.discard(p_tenant, array[p_id], p_arguments ->> 'by') = 0 then
        select * into v_run from windlass.get_runs(p_tenant, array[p_id]);
        perform windlass.refuse_verb(
          p_id, case when v_run.discarded_at is null then v_run.status else 'discarded' end,
          'discard');
      end if;
      v_run.status := 'failed';
    else
      perform windlass.refuse('apply_to_many', 'verb', 'is none that is for many runs');
  end case;
  return v_run.status;
end
$$;
