-- Timers whose time has come become ready, oldest first, at most p_limit.
create or replace function windlass.dispatch(p_limit integer default 500)
returns table (tenant text, id uuid)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := windlass.now();
begin
  return query
    with due as materialized (
      select t.ctid as place from windlass.timers t
       where t.due_at <= v_now
       order by t.due_at limit p_limit for update skip locked
    ), stamp as materialized (
      -- The time is taken once the rows are ours: a run's events do not go back.
      select count(*) as locked, windlass.now() as at from due
    ), moved as (
      delete from windlass.timers t where t.ctid = any (array (select d.place from due d))
      returning t.tenant, t.id, t.job, t.queue, t.rank, t.attempt, t.failures, t.crash_count,
                t.token, t.seq + 1 as seq, t.expires_at, t.deadline_at
    ), placed as (
      insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                                  attempt, failures, crash_count, token, seq, expires_at,
                                  deadline_at)
      select m.tenant, m.id, m.job, m.queue, m.rank, s.at,
             m.attempt, m.failures, m.crash_count, m.token, m.seq, m.expires_at,
             m.deadline_at
        from moved m, stamp s
    ), logged as (
      insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
      select m.tenant, m.id, m.seq, 'run.queued', s.at, m.attempt from moved m, stamp s
    )
    select m.tenant, m.id from moved m;
end
$$;
