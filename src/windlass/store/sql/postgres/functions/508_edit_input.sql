-- Replace the input of a run that the caller has made its own; returns what its event says of it. The one
-- place where that is done. A run that has recorded steps keeps its input (WL012): a replay would find what
-- was made with another one. The run's key still answers for the input that it was enqueued with.
create or replace function windlass.edit_input(
  p_of text, p_tenant text, p_id uuid, p_input json
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_old json;
begin
  if json_typeof(p_input) = 'null' then
    perform windlass.refuse(p_of, 'input', 'is null: a run has an input');
  elsif windlass.needs_judging(p_input::text, true) then
    perform windlass.judge_json('input', p_input::text);
  end if;
  if exists (select 1 from windlass.steps s
              where s.tenant = p_tenant and s.run = p_id and s.generation <= 0) then
    raise exception 'run % has recorded steps, which were made with its input', p_id
      using errcode = 'WL012', detail = json_build_array(p_id)::text;
  end if;
  select r.input into v_old from windlass.runs r where r.tenant = p_tenant and r.id = p_id;
  update windlass.runs r set input = p_input where r.tenant = p_tenant and r.id = p_id;
  return windlass.told_change(v_old, p_input);
end
$$;
