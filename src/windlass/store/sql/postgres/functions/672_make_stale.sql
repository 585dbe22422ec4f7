-- Let runs that have ended become stale; those that somebody has locked are left alone. Returns how many did.
-- The next seq of a success is kept free for run.stale, which its record tells of from now on. Of the others
-- there is a row; all of them are paged here, and not by the trigger.
create or replace function windlass.make_stale(p_tenant text, p_ids uuid[]) returns integer
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
  v_ids uuid[];
  v_count integer;
begin
  select array_agg(r.id) into v_ids
    from (select n.id from (select distinct g.id from unnest(p_ids) as g(id) order by g.id) n
           cross join lateral (select 1 from windlass.runs r
                                where r.tenant = p_tenant and r.id = n.id and r.status is not null
                                  and r.stale_at is null for no key update skip locked) r) r;
  v_now := windlass.now();
  with done as (
    update windlass.runs r set stale_at = v_now, seq = r.seq + (r.status <> 'succeeded')::integer
      from unnest(v_ids) as n(id)
     where r.tenant = any (array[p_tenant]) and r.id = n.id
    returning r.id, r.status, r.attempt, r.seq, r.seq + (r.status = 'succeeded')::integer as told
  ), noted as (
    insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
    select p_tenant, d.id, d.told, 'run.stale', v_now, d.attempt from done d
     where d.status <> 'succeeded'
  ), paged as (
    insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
    select windlass.page_moment(), v_now, d.told, d.attempt, p_tenant, 'run.stale',
           array_agg(d.id)
      from done d group by d.told, d.attempt
  )
  select count(*) into v_count from done;
  return v_count;
end
$$;
