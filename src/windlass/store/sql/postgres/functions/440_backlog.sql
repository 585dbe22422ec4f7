-- What is left to do for some queues and jobs (null: all), over all tenants. Each count stops
-- at p_most of its own, so that the answer costs the same whatever the backlog, and none is
-- hidden by another. What is due counts as ready, and so does what was woken because a child has ended:
-- a dispatcher moves it any moment now. What is ready, due or retrying in a paused queue, or of a paused job, is
-- counted as paused and as nothing else.
create or replace function windlass.backlog(
  p_queues text[] default null, p_jobs text[] default null, p_most integer default 100000,
  out ready integer, out running integer, out retrying integer, out scheduled integer,
  out oldest_ready_at timestamptz, out paused integer
)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := windlass.now();
  v_due integer;
  v_paused text[] := windlass.paused_names();
begin
  paused := 0;
  if v_paused is not null then
    select count(*) into paused
      from (select 1
              from (select r.tenant, r.queue, r.job from windlass.ready r
                    union all
                    select t.tenant, t.queue, t.job from windlass.timers t
                     where t.why = 'backoff' or t.due_at <= v_now) w
             where (p_queues is null or w.queue = any (p_queues))
               and (p_jobs is null or w.job = any (p_jobs))
               and windlass.is_paused(v_paused, w.tenant, w.queue, w.job) limit p_most) x;
  end if;
  select count(*), min(x.ready_at) into ready, oldest_ready_at
    from (select r.ready_at from windlass.ready r
           where (p_queues is null or r.queue = any (p_queues))
             and (p_jobs is null or r.job = any (p_jobs))
             and not windlass.is_paused(v_paused, r.tenant, r.queue, r.job) limit p_most) x;
  select count(*) into running
    from (select 1 from windlass.leases l
           where (p_queues is null or l.queue = any (p_queues))
             and (p_jobs is null or l.job = any (p_jobs)) limit p_most) x;
  select count(*) into retrying
    from (select 1 from windlass.timers t
           where t.why = 'backoff' and (p_queues is null or t.queue = any (p_queues))
             and (p_jobs is null or t.job = any (p_jobs))
             and not windlass.is_paused(v_paused, t.tenant, t.queue, t.job) limit p_most) x;
  select count(*) into v_due
    from (select 1 from windlass.timers t
           where t.why <> 'backoff' and t.due_at <= v_now
             and (p_queues is null or t.queue = any (p_queues))
             and (p_jobs is null or t.job = any (p_jobs))
             and not windlass.is_paused(v_paused, t.tenant, t.queue, t.job) limit p_most) x;
  select count(*) into scheduled
    from (select 1 from windlass.timers t
           where t.why not in ('backoff', 'wait', 'paused') and t.due_at > v_now
             and (p_queues is null or t.queue = any (p_queues))
             and (p_jobs is null or t.job = any (p_jobs)) limit p_most) x;
  ready := ready + v_due + (select count(*) from (select 1 from windlass.wakes limit p_most) x);
end
$$;
