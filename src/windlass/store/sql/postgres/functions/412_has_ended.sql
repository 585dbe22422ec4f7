-- Whether a run has ended, and nothing else of it: for callers that ask often. Null: no such run.
create or replace function windlass.has_ended(p_tenant text, p_id uuid) returns boolean
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  return (select r.status is not null from windlass.runs r
           where r.tenant = p_tenant and r.id = p_id);
end
$$;
