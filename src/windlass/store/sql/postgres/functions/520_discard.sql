-- Take failed runs off the list of dead letters. Returns how many were on it.
create or replace function windlass.discard(
  p_tenant text, p_ids uuid[], p_by text default null
) returns integer
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
  v_now timestamptz;
  v_count integer;
  v_noted integer;
begin
  -- The record first, as retry does: its row is the mutex, between the two and between two that
  -- discard at once. What it protects is read by the next statement, after the wait. A live run is
  -- no dead letter, and whoever is just ending it is not waited for.
  perform 1
     from (select distinct n.id from unnest(p_ids) as n(id) order by n.id) n
    cross join lateral (select 1 from windlass.runs r
                         where r.tenant = p_tenant and r.id = n.id and r.status is not null
                           for update) r;
  v_now := windlass.now();  -- once the rows are ours: a run's events do not go back
  with letter as (
    update windlass.runs r set seq = r.seq + 1
      from (select distinct n.id from unnest(p_ids) as n(id)) n
     cross join lateral (select f.tenant, f.id from windlass.failures f
                          where f.tenant = p_tenant and f.id = n.id
                            and f.discarded_at is null limit 1) f
     where r.tenant = any (array[f.tenant]) and r.id = f.id and r.status = 'failed'
    returning r.tenant, r.id, r.seq, r.attempt
  ), marked as (
    update windlass.failures f set discarded_at = v_now from letter l
     where f.tenant = any (array[l.tenant]) and f.id = l.id
  ), logged as (
    insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
    select p_tenant, l.id, l.seq, 'run.discarded', v_now, l.attempt from letter l
  )
  select count(*), count(windlass.note_audit(p_tenant, 'run', l.id::text, 'discard', p_by))
    into v_count, v_noted from letter l;
  return v_count;
end
$$;
