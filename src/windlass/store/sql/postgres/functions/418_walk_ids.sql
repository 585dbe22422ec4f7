-- The ids of one index, newest first: of a key, a schedule, a tag or a job (p_value), of a status that has
-- a table of its own, or of all runs. For windlass.find_ids.
create or replace function windlass.walk_ids(
  p_walk text, p_tenant text, p_value text, p_low uuid, p_high uuid, p_most integer
) returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
set plan_cache_mode = force_custom_plan
as $$
begin
  case p_walk
    when 'key' then
      -- Written, as those below, so that only the index that is meant has this order.
      return array(
        select r.id from windlass.runs r
         where (r.key, r.tenant, r.id) < (p_value, p_tenant, p_high)
           and (r.key, r.tenant, r.id) >= (p_value, p_tenant, p_low) and r.key = p_value
         order by r.key desc, r.tenant desc, r.id desc limit p_most);
    when 'schedule' then
      return array(
        select r.id from windlass.runs r
         where (r.schedule, r.tenant, r.id) < (p_value::uuid, p_tenant, p_high)
           and (r.schedule, r.tenant, r.id) >= (p_value::uuid, p_tenant, p_low)
           and r.schedule = p_value::uuid
         order by r.schedule desc, r.tenant desc, r.id desc limit p_most);
    when 'tag' then
      return array(
        select g.id from windlass.run_tags g
         where g.tenant = p_tenant and g.tag = p_value and g.id < p_high and g.id >= p_low
         order by g.id desc limit p_most);
    when 'job' then
      -- The index's predicate, that there is a job, follows from the third comparison alone.
      return array(
        select r.id from windlass.runs r
         where (r.job, r.tenant, r.id) < (p_value, p_tenant, p_high)
           and (r.job, r.tenant, r.id) >= (p_value, p_tenant, p_low) and r.job <> ''
         order by r.job desc, r.tenant desc, r.id desc limit p_most);
    when 'queued' then
      return array(
        select q.id from windlass.ready q
         where q.tenant = p_tenant and q.id < p_high and q.id >= p_low
         order by q.id desc limit p_most);
    when 'scheduled' then
      return array(
        select t.id from windlass.timers t
         where t.tenant = p_tenant and t.id < p_high and t.id >= p_low
           and t.why not in ('wait', 'paused')
         order by t.id desc limit p_most);
    when 'waiting' then
      return array(
        select t.id from windlass.timers t
         where (t.why, t.tenant, t.id) < ('wait', p_tenant, p_high)
           and (t.why, t.tenant, t.id) >= ('wait', p_tenant, p_low) and t.why = 'wait'
         order by t.why desc, t.tenant desc, t.id desc limit p_most);
    when 'paused' then
      return array(
        select t.id from windlass.timers t
         where (t.why, t.tenant, t.id) < ('paused', p_tenant, p_high)
           and (t.why, t.tenant, t.id) >= ('paused', p_tenant, p_low) and t.why = 'paused'
         order by t.why desc, t.tenant desc, t.id desc limit p_most);
    when 'running' then
      return array(
        select l.id from windlass.leases l
         where l.tenant = p_tenant and l.id < p_high and l.id >= p_low
         order by l.id desc limit p_most);
    when 'failed', 'canceled' then
      return array(
        select f.id from windlass.failures f
         where (f.status, f.tenant, f.id) < (p_walk, p_tenant, p_high)
           and (f.status, f.tenant, f.id) >= (p_walk, p_tenant, p_low) and f.status = p_walk
         order by f.status desc, f.tenant desc, f.id desc limit p_most);
    when 'all' then
      return array(
        select r.id from windlass.runs r
         where r.tenant = p_tenant and r.id < p_high and r.id >= p_low
         order by r.id desc limit p_most);
    else
      return '{}';  -- a status that no run has yet
  end case;
end
$$;
