-- The latest progress of one run, under its token, for workers in SQL: it waits for a lock on the lease.
-- False: the lease is lost, nothing was written.
create or replace function windlass.progress(
  p_tenant text, p_id uuid, p_token bigint, p_fraction double precision, p_message text
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  perform windlass.check_progress(p_fraction, p_message, null);
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_id and l.token = p_token for key share;
  if not found then
    return false;
  end if;
  perform windlass.record_progress(json_build_array(json_build_object(
            'tenant', p_tenant, 'id', p_id, 'token', p_token, 'fraction', p_fraction,
            'message', p_message)));
  return true;
end
$$;
