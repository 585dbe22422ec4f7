-- Do what is due of the chores of domain/retention.py, at most about p_limit runs or rows. p_terms: {"runs": the
-- retention of jobs whose definition says nothing, "feed", "audit", "slots": seconds, or null for never}.
-- Returns {"stale", "deleted", "pages", "audit", "slots", "keys", "locations": of artifacts whose bytes may
-- go, "more"}.
create or replace function windlass.tidy(p_terms json, p_limit integer default 200) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
as $$
declare
  v_now timestamptz := windlass.now();
  v_chore windlass.chores;
  v_walk record;
  v_place record;
  v_left integer := p_limit;
  v_count integer;
  v_stale integer := 0;
  v_deleted integer := 0;
  v_pages integer := 0;
  v_audit integer := 0;
  v_slots integer := 0;
  v_keys integer := 0;
  v_locations text[] := '{}';
begin
  if not exists (select 1 from windlass.chores c where c.kind = 'jobs') then
    insert into windlass.chores (kind) values ('jobs'), ('feed'), ('audit'), ('slots'), ('keys')
    on conflict (kind, tenant, job) do nothing;
  end if;
  while v_left > 0 loop
    select * into v_chore from windlass.chores c
     where c.due_at <= v_now
     order by c.due_at, c.kind, c.tenant, c.job limit 1 for update skip locked;
    exit when not found;
    v_count := 0;
    if v_chore.kind in ('stale', 'delete') then
      select * into v_walk from windlass.walk_old(v_chore, p_terms -> 'runs', v_left);
      v_chore := v_walk.p_chore;
      v_count := v_walk.spent;
      v_locations := v_locations || v_walk.locations;
      if v_chore.kind = 'stale' then
        v_stale := v_stale + v_walk.changed;
      else
        v_deleted := v_deleted + v_walk.changed;
      end if;
    else
      v_chore.due_at := v_now + interval '60 s';
      if v_chore.kind = 'jobs' then
        perform windlass.find_jobs(v_now);
      elsif v_chore.kind = 'feed' then
        select * into v_place from windlass.drop_pages(
          v_now - make_interval(secs => (p_terms ->> 'feed')::double precision), v_left);
        v_count := v_place.deleted;
        v_pages := v_pages + v_count;
        v_chore.mark := coalesce(v_place.place, v_chore.mark);
      elsif v_chore.kind = 'audit' then
        v_count := windlass.drop_audit(
          v_now - make_interval(secs => (p_terms ->> 'audit')::double precision), v_left);
        v_audit := v_audit + v_count;
      elsif v_chore.kind = 'slots' then
        v_count := windlass.drop_old_slots(
          v_now - make_interval(secs => (p_terms ->> 'slots')::double precision), v_left);
        v_slots := v_slots + v_count;
      elsif v_chore.kind = 'keys' then
        v_count := windlass.drop_expired_keys(v_left);
        v_keys := v_keys + v_count;
      end if;
      if v_count >= v_left then
        v_chore.due_at := v_now;
      end if;
    end if;
    update windlass.chores c
       set due_at = v_chore.due_at, lap_at = v_chore.lap_at, lapping = v_chore.lapping,
           terms = v_chore.terms, mark = v_chore.mark
     where c.kind = v_chore.kind and c.tenant = v_chore.tenant and c.job = v_chore.job;
    v_left := v_left - v_count - 1;
  end loop;
  return json_build_object(
    'stale', v_stale, 'deleted', v_deleted, 'pages', v_pages, 'audit', v_audit, 'slots', v_slots,
    'keys', v_keys, 'locations', v_locations,
    'more', v_left <= 0 and exists (select 1 from windlass.chores c where c.due_at <= v_now));
end
$$;
