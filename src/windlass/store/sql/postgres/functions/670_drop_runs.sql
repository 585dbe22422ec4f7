-- Delete runs that have ended, with everything that hangs on them: see domain/retention.py. Returns how many
-- are gone, how many stay because others need them, and where the bytes of their artifacts are. Those that
-- somebody has locked are left alone, so this waits for no run; it has the runs before anything of them.
create or replace function windlass.drop_runs(
  p_tenant text, p_ids uuid[], out deleted integer, out kept integer, out locations text[]
)
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
  v_now timestamptz;
  v_ended uuid[];
  v_ids uuid[];
begin
  select coalesce(array_agg(r.id), '{}') into v_ended
    from (select n.id from (select distinct g.id from unnest(p_ids) as g(id) order by g.id) n
           cross join lateral (select 1 from windlass.runs r
                                where r.tenant = p_tenant and r.id = n.id and r.status is not null
                                  for update skip locked) r) r;
  v_now := windlass.now();
  -- Read by the next statement, once they are ours. A tree goes from its leaves, after its root has ended;
  -- what others wait for, and what a failure handler is yet to look at, goes after them.
  v_ids := array(
    select r.id from unnest(v_ended) as n(id)
     cross join lateral (select r.id, r.links, r.status from windlass.runs r
                          where r.tenant = p_tenant and r.id = n.id limit 1) r
     where (r.links is null
            or ((select true from windlass.children c
                  where c.tenant = p_tenant and c.id = r.id
                    and (select p.status is null from windlass.runs p
                          where p.tenant = p_tenant and p.id = c.parent limit 1) limit 1) is null
                and (select true from windlass.children c
                      where c.parent = r.id and c.tenant = p_tenant limit 1) is null))
       -- Whatever its links say: they are noted a moment after the follower is there.
       and (select true from windlass.follows f
             where f.awaited = r.id and f.tenant = p_tenant
               and (select w.status is null from windlass.runs w
                     where w.tenant = p_tenant and w.id = f.id limit 1) limit 1) is null
       and (r.status <> 'failed'
            or (select true from windlass.event_rows e
                 where e.tenant = p_tenant and e.subject = r.id and e.type = 'run.failed'
                   and (select h.status is null from windlass.runs h
                         where h.tenant = p_tenant
                           and h.id = (e.data ->> 'handled_by')::uuid limit 1) limit 1) is null));
  deleted := cardinality(v_ids);
  kept := cardinality(v_ended) - deleted;
  locations := array(
    select a.location from unnest(v_ids) as n(id)
     cross join lateral (select a.location from windlass.artifacts a
                          where a.tenant = p_tenant and a.run = n.id
                          order by a.name collate "C") a);
  if deleted = 0 then
    return;
  end if;
  -- All that is left of them. A success keeps one seq free for run.stale, which its record tells of.
  insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects, data)
  select windlass.page_moment(), v_now, x.seq, x.attempt, p_tenant, 'run.deleted',
         array_agg(x.id), array_agg(x.data)
    from (select r.id, r.attempt,
                 r.seq + 1 + (r.status = 'succeeded' and r.stale_at is not null)::integer as seq,
                 json_build_object('job', r.job, 'status', r.status) as data
            from unnest(v_ids) as n(id)
           cross join lateral (select r.* from windlass.runs r
                                where r.tenant = p_tenant and r.id = n.id limit 1) r) x
   group by x.seq, x.attempt;
  delete from windlass.run_tags g
    using (select r.id, t.tag from unnest(v_ids) as n(id)
            cross join lateral (select r.id, r.tags from windlass.runs r
                                 where r.tenant = p_tenant and r.id = n.id limit 1) r
            cross join lateral unnest(r.tags) as t(tag)) x
    where g.tenant = p_tenant and g.tag = x.tag and g.id = x.id;
  -- A key with time left outlives its run.
  delete from windlass.run_keys k
    using (select r.id, r.job, r.key from unnest(v_ids) as n(id)
            cross join lateral (select r.id, r.job, r.key from windlass.runs r
                                 where r.tenant = p_tenant and r.id = n.id limit 1) r
            where r.key is not null) x
    where k.tenant = p_tenant and k.job = x.job and k.key = x.key and k.run = x.id
      and (k.expires_at is null or k.expires_at <= v_now or k.live);
  update windlass.run_keys k
     set run_status = x.status, run_created_at = x.created_at, run_scheduled_for = x.scheduled_for
    from (select r.id, r.job, r.key, r.status, r.created_at, r.scheduled_for
            from unnest(v_ids) as n(id)
           cross join lateral (select r.* from windlass.runs r
                                where r.tenant = p_tenant and r.id = n.id limit 1) r
           where r.key is not null) x
   where k.tenant = any (array[p_tenant]) and k.job = x.job and k.key = x.key and k.run = x.id;
  delete from windlass.schedule_live l
    using (select r.id, r.schedule, r.slot from unnest(v_ids) as n(id)
            cross join lateral (select r.id, r.schedule, r.slot from windlass.runs r
                                 where r.tenant = p_tenant and r.id = n.id limit 1) r
            where r.schedule is not null) x
    where l.tenant = p_tenant and l.schedule = x.schedule and l.slot = x.slot and l.run = x.id;
  delete from windlass.artifacts a where a.ctid = any (array(
    select a.place from unnest(v_ids) as n(id)
     cross join lateral (select b.ctid as place from windlass.artifacts b
                          where b.tenant = p_tenant and b.run = n.id
                          order by b.name collate "C") a));
  delete from windlass.event_rows e using unnest(v_ids) as n(id)
    where e.tenant = p_tenant and e.subject = n.id;
  delete from windlass.attempt_rows a using unnest(v_ids) as n(id)
    where a.tenant = p_tenant and a.run = n.id;
  delete from windlass.steps s where s.ctid = any (array(
    select s.place from unnest(v_ids) as n(id)
     cross join lateral (select t.ctid as place from windlass.steps t
                          where t.tenant = p_tenant and t.run = n.id
                          order by t.tenant, t.run, t.generation, t.path) s));
  delete from windlass.generations g using unnest(v_ids) as n(id)
    where g.tenant = p_tenant and g.run = n.id;
  delete from windlass.signals s using unnest(v_ids) as n(id)
    where s.tenant = p_tenant and s.run = n.id;
  delete from windlass.run_logs l using unnest(v_ids) as n(id)
    where l.tenant = p_tenant and l.run = n.id;
  delete from windlass.progress g using unnest(v_ids) as n(id)
    where g.tenant = p_tenant and g.id = n.id;
  delete from windlass.failures f using unnest(v_ids) as n(id)
    where f.tenant = p_tenant and f.id = n.id;
  delete from windlass.children c using unnest(v_ids) as n(id)
    where c.tenant = p_tenant and c.id = n.id;
  delete from windlass.follows f using unnest(v_ids) as n(id)
    where f.tenant = p_tenant and f.id = n.id;
  delete from windlass.batches b using unnest(v_ids) as n(id)
    where b.tenant = p_tenant and b.run = n.id;
  delete from windlass.shards s using unnest(v_ids) as n(id)
    where s.tenant = p_tenant and s.batch = n.id;
  delete from windlass.unit_failures u using unnest(v_ids) as n(id)
    where u.tenant = p_tenant and u.batch = n.id;
  delete from windlass.units u using unnest(v_ids) as n(id)
    where u.tenant = p_tenant and u.batch = n.id;
  delete from windlass.staged s using unnest(v_ids) as n(id)
    where s.tenant = p_tenant and s.batch = n.id;
  delete from windlass.runs r using unnest(v_ids) as n(id)
    where r.tenant = p_tenant and r.id = n.id;
end
$$;

-- Delete runs by hand. Returns {"deleted", "kept", "locations"}, see windlass.drop_runs.
create or replace function windlass.delete_runs(p_tenant text, p_ids uuid[]) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_done record;
begin
  select * into v_done from windlass.drop_runs(p_tenant, p_ids);
  return json_build_object('deleted', v_done.deleted, 'kept', v_done.kept,
                           'locations', v_done.locations);
end
$$;
