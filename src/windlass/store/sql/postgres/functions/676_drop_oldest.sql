-- Delete the oldest pages of the feed, those written before p_before. Returns how many, and the place up to
-- which nothing is left (null: nothing was deleted).
create or replace function windlass.drop_pages(
  p_before timestamptz, p_limit integer, out deleted integer, out place text
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
declare
  v_page record;
  v_last record;
begin
  deleted := 0;
  for v_page in
    select p.ctid as row_place, p.era, p.moment, p.n, p.at, cardinality(p.subjects) as k
      from windlass.pages p
     where p.moment < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
     order by p.era, p.moment, p.n limit p_limit
  loop
    exit when (v_page.at < p_before) is not true;  -- null: never
    delete from windlass.pages p where p.ctid = v_page.row_place;
    deleted := deleted + 1;
    v_last := v_page;
  end loop;
  if deleted > 0 then
    place := format('%s:%s:%s:%s', v_last.era, v_last.moment, v_last.n, v_last.k);
  end if;
end
$$;

-- Delete the oldest rows of the audit log, of all tenants, those written before p_before. Returns how many.
create or replace function windlass.drop_audit(p_before timestamptz, p_limit integer)
returns integer
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
  v_tenant text := '';
  v_deleted integer := 0;
  v_count integer;
begin
  loop
    select a.tenant into v_tenant from windlass.audit a
     where a.tenant > v_tenant order by a.tenant, a.n limit 1;
    exit when not found or v_deleted >= p_limit;
    delete from windlass.audit d where d.ctid = any (array(
      select o.place
        from (select a.ctid as place, a.at from windlass.audit a
               where a.tenant = v_tenant order by a.tenant, a.n limit p_limit - v_deleted) o
       where o.at < p_before));
    get diagnostics v_count = row_count;
    v_deleted := v_deleted + v_count;
  end loop;
  return v_deleted;
end
$$;

-- Delete slots from before p_before, of all schedules that nobody has locked, but not those that wait for
-- their turn. Returns how many.
create or replace function windlass.drop_old_slots(p_before timestamptz, p_limit integer)
returns integer
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
  v_schedule record;
  v_tenant text := '';
  v_id uuid := '00000000-0000-0000-0000-000000000000';
  v_deleted integer := 0;
  v_count integer;
begin
  loop
    select s.tenant, s.id into v_schedule from windlass.schedules s
     where (s.tenant, s.id) > (v_tenant, v_id) order by s.tenant, s.id limit 1;
    exit when not found or v_deleted >= p_limit;
    v_tenant := v_schedule.tenant;
    v_id := v_schedule.id;
    continue when (select true from windlass.schedule_slots k
                    where k.tenant = v_tenant and k.schedule = v_id and k.slot < p_before
                      and k.outcome <> 'waiting' limit 1) is null;
    perform 1 from windlass.schedules s
      where s.tenant = v_tenant and s.id = v_id for update skip locked;
    continue when not found;
    delete from windlass.schedule_slots d where d.ctid = any (array(
      select k.ctid from windlass.schedule_slots k
       where k.tenant = v_tenant and k.schedule = v_id and k.slot < p_before
         and k.outcome <> 'waiting'
       order by k.tenant, k.schedule, k.slot limit p_limit - v_deleted));
    get diagnostics v_count = row_count;
    v_deleted := v_deleted + v_count;
  end loop;
  return v_deleted;
end
$$;

-- Delete dedupe keys whose time is over, at most p_limit. Returns how many.
create or replace function windlass.drop_expired_keys(p_limit integer) returns integer
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
  v_deleted integer;
begin
  delete from windlass.run_keys d where d.ctid = any (array(
    select k.ctid from windlass.run_keys k
     where k.expires_at <= windlass.now() order by k.expires_at limit p_limit
       for update skip locked));
  get diagnostics v_deleted = row_count;
  return v_deleted;
end
$$;
