-- Keep a schedule from being judged or deleted while its runs are reopened, as windlass.reopen_run does.
-- False: somebody else has it.
create or replace function windlass.hold_schedule(p_tenant text, p_id uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  perform 1 from windlass.schedules s
    where s.tenant = p_tenant and s.id = p_id for key share skip locked;
  return found;
end
$$;

-- Keep a key for a run that is reopened. False: somebody else has it. One that is in nobody's table yet
-- needs no lock.
create or replace function windlass.hold_key(p_tenant text, p_job text, p_key text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  perform 1 from windlass.run_keys k
    where k.tenant = p_tenant and k.job = p_job and k.key = p_key for update skip locked;
  return found or not exists (select 1 from windlass.run_keys k
                               where k.tenant = p_tenant and k.job = p_job and k.key = p_key);
end
$$;

-- Lock what a verb may need of several runs, before anything is changed: the position of a live run, its
-- record, and of an ended one its schedule and a key that is its own while it lives. Returns the runs
-- that are ours. It waits for nobody, so it cannot be part of a circle of those who wait for each
-- other: a run of which somebody else has locked a part is not ours, nor is one that is just moving.
create or replace function windlass.hold_runs(p_tenant text, p_ids uuid[]) returns uuid[]
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_ids uuid[] := array(select distinct unnest(p_ids) as id order by id);
  v_live uuid[];
begin
  v_live := array(
    select p.id from unnest(v_ids) as n(id)
     cross join lateral (select x.id from windlass.ready x
                          where x.tenant = p_tenant and x.id = n.id for update skip locked) p);
  v_live := v_live || array(
    select p.id from unnest(v_ids) as n(id)
     cross join lateral (select x.id from windlass.timers x
                          where x.tenant = p_tenant and x.id = n.id for update skip locked) p);
  v_live := v_live || array(
    select p.id from unnest(v_ids) as n(id)
     cross join lateral (select x.id from windlass.leases x
                          where x.tenant = p_tenant and x.id = n.id for update skip locked) p);
  v_ids := array(
    select r.id from unnest(v_ids) as n(id)
     cross join lateral (select x.id from windlass.runs x
                          where x.tenant = p_tenant and x.id = n.id
                            and (x.status is not null or x.id = any (v_live))
                            for no key update skip locked) r);
  return array(
    select r.id from unnest(v_ids) as n(id)
     cross join lateral (select * from windlass.runs x
                          where x.tenant = p_tenant and x.id = n.id limit 1) r
     where r.status is null
        or ((r.schedule is null or windlass.hold_schedule(p_tenant, r.schedule)
             or not exists (select 1 from windlass.schedules s
                             where s.tenant = p_tenant and s.id = r.schedule))
            and (r.key is null or r.options ->> 'unique' is distinct from 'live'
                 or windlass.hold_key(p_tenant, r.job, r.key))));
end
$$;
