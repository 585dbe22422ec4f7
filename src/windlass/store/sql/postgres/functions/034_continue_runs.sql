-- The number of the generation that is over if a run goes on with another input now.
create or replace function windlass.next_generation(p_tenant text, p_run uuid) returns integer
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return (select coalesce(max(g.generation), 0) + 1 from windlass.generations g
           where g.tenant = p_tenant and g.run = p_run);
end
$$;

-- Let runs go on with other inputs: what they had, and their steps, are kept as a generation. Items:
-- tenant, id, generation, input (the new one), attempt, seq. The caller has made the runs its own.
create or replace function windlass.continue_runs(p_items json, p_now timestamptz) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_item record;
begin
  for v_item in
    select x.* from json_to_recordset(p_items)
                    as x(tenant text, id uuid, generation integer, input json, attempt integer,
                         seq integer)
  loop
    if json_typeof(v_item.input) is distinct from 'object' then
      perform windlass.refuse('continued', 'result', 'is not an object: a run has an input');
    end if;
    insert into windlass.generations (tenant, run, generation, input, attempt, seq, at)
    select r.tenant, r.id, v_item.generation, r.input, v_item.attempt, v_item.seq, p_now
      from windlass.runs r where r.tenant = v_item.tenant and r.id = v_item.id;
    update windlass.runs r set input = v_item.input
     where r.tenant = v_item.tenant and r.id = v_item.id;
    update windlass.steps s set generation = v_item.generation
     where s.tenant = v_item.tenant and s.run = v_item.id and s.generation = 0;
    update windlass.signals g set generation = v_item.generation
     where g.tenant = v_item.tenant and g.run = v_item.id and g.generation = 0
       and g.taken_by is not null;
  end loop;
end
$$;
