-- Ready runs whose message was never sent, or not in the last p_older_than seconds: marked as
-- published now, and returned to be sent (again). Not those that are paused: nobody may take them.
create or replace function windlass.unpublished(p_older_than double precision, p_limit integer)
returns table (tenant text, id uuid)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  v_now timestamptz := windlass.now();
  v_paused text[] := windlass.paused_names();
  v_before timestamptz := v_now - make_interval(secs => p_older_than);
begin
  return query
    with lost as materialized (
      select r.ctid as place from windlass.ready r
       where coalesce(r.published_at, r.ready_at) <= v_before
         and not windlass.is_paused(v_paused, r.tenant, r.queue, r.job)
       order by r.ready_at limit p_limit for update skip locked
    )
    update windlass.ready r set published_at = v_now
     where r.ctid = any (array (select l.place from lost l))
    returning r.tenant, r.id;
end
$$;
