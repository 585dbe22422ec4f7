-- Whether a queue or a job (p_kind) is paused for every tenant that has anything ready, so that a claim
-- need not look. One probe beside each tenant for which it is paused: their own rows are not read.
create or replace function windlass.is_still(p_kind text, p_name text)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_tenant text;
  v_last text;
begin
  for v_tenant in select p.tenant from windlass.pauses p
                   where p.kind = p_kind and p.name = p_name order by p.tenant loop
    if v_last is null then
      if exists (select 1 from windlass.ready r where r.tenant < v_tenant limit 1) then
        return false;
      end if;
    elsif exists (select 1 from windlass.ready r
                   where r.tenant > v_last and r.tenant < v_tenant limit 1) then
      return false;
    end if;
    v_last := v_tenant;
  end loop;
  return v_last is not null
         and not exists (select 1 from windlass.ready r where r.tenant > v_last limit 1);
end
$$;
