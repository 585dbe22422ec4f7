-- The events of a run, or of a schedule, in order. The next page: p_after = the last seq of this one.
create or replace function windlass.list_events(
  p_tenant text, p_subject uuid, p_after bigint default 0, p_limit bigint default 1000
) returns table (seq integer, type text, at timestamptz, attempt integer, data json)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select e.seq, e.type, e.at, e.attempt, e.data from windlass.events e
     where e.tenant = p_tenant and e.subject = p_subject and e.seq > p_after
     order by e.seq limit p_limit;
end
$$;
