-- Keep units for a batch that is to be enqueued within p_within seconds. The first of them has the number
-- p_first. A page that is there stays as it is.
create or replace function windlass.stage_units(
  p_tenant text, p_batch uuid, p_first bigint, p_units json, p_within double precision
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  perform windlass.check_escapes('list of units', p_units);
  insert into windlass.staged (tenant, batch, until)
  values (p_tenant, p_batch, windlass.now() + make_interval(secs => p_within))
  on conflict (tenant, batch) do update set until = excluded.until;
  insert into windlass.units (tenant, batch, first, count, units)
  values (p_tenant, p_batch, p_first, json_array_length(p_units), p_units)
  on conflict (tenant, batch, first) do nothing;
end
$$;

-- Whether all units are there that were staged for a batch; they are kept for p_within seconds more.
create or replace function windlass.seal_units(
  p_tenant text, p_batch uuid, p_total bigint, p_within double precision
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  update windlass.staged s set until = windlass.now() + make_interval(secs => p_within)
   where s.tenant = p_tenant and s.batch = p_batch;
  return (select coalesce(sum(u.count), 0) = p_total from windlass.units u
           where u.tenant = p_tenant and u.batch = p_batch);
end
$$;

-- Delete what was staged for a batch. False: nothing was, or there is a run of that id.
create or replace function windlass.drop_units(p_tenant text, p_batch uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  if exists (select 1 from windlass.runs r where r.tenant = p_tenant and r.id = p_batch) then
    return false;
  end if;
  delete from windlass.units u where u.tenant = p_tenant and u.batch = p_batch;
  delete from windlass.staged s where s.tenant = p_tenant and s.batch = p_batch;
  return found;
end
$$;

-- Delete staged units whose time is over, at most p_limit pages; those of a run are no longer staged. Returns
-- how many pages were deleted.
create or replace function windlass.sweep_units(p_limit integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_staged windlass.staged;
  v_deleted integer := 0;
  v_pages integer;
begin
  loop
    select s.* into v_staged from windlass.staged s
     where s.until < windlass.now() order by s.until limit 1 for update skip locked;
    exit when not found;
    if not exists (select 1 from windlass.runs r
                    where r.tenant = v_staged.tenant and r.id = v_staged.batch) then
      delete from windlass.units u
       where u.tenant = v_staged.tenant and u.batch = v_staged.batch
         and u.first in (select p.first from windlass.units p
                          where p.tenant = v_staged.tenant and p.batch = v_staged.batch
                          order by p.first limit p_limit - v_deleted);
      get diagnostics v_pages = row_count;
      v_deleted := v_deleted + v_pages;
      exit when v_deleted >= p_limit;
    end if;
    delete from windlass.staged s
     where s.tenant = v_staged.tenant and s.batch = v_staged.batch;
  end loop;
  return v_deleted;
end
$$;
