-- Raise the reason why a verb cannot be applied to a run that the caller did not find where the verb may
-- find it: WL001, there is no such run, or WL002, its status does not allow it. If its status allows it,
-- the run has moved since the caller looked: the caller looks again.
create or replace function windlass.check_verb(p_tenant text, p_id uuid, p_verb text)
returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_status text;
begin
  select v.status into v_status from windlass.run_view v where v.tenant = p_tenant and v.id = p_id;
  if not found then
    raise exception 'there is no run %', p_id
      using errcode = 'WL001', detail = json_build_array(p_id)::text;
  elsif windlass.next_status(v_status, p_verb) is null then
    perform windlass.refuse_verb(p_id, v_status, p_verb);
  end if;
end
$$;
