-- The latest progress of a run, under its token. False: the lease is lost, nothing was written.
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
  if p_fraction not between 0 and 1 then
    perform windlass.refuse('progress', 'fraction', 'is not a number from 0 to 1');
  end if;
  perform windlass.check_words('progress', 'message', p_message, 10000);
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_id and l.token = p_token for key share;
  if not found then
    return false;
  end if;
  insert into windlass.progress (tenant, id, fraction, message, at)
  values (p_tenant, p_id, p_fraction, p_message, windlass.now())
  on conflict (tenant, id) do update
    set fraction = excluded.fraction, message = excluded.message, at = excluded.at;
  return true;
end
$$;
