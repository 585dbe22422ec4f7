-- The end of an attempt in the caller's own transaction: it and whatever else that writes are committed
-- together, or not at all. p_finish is a list with the one end, as windlass.finish takes it; p_progress one
-- with what the handler told last, as windlass.record_progress does. Under a token that is not the lease's
-- this raises WL013, so that the transaction cannot be committed.
--
-- The lease is locked first, and waited for: windlass.finish passes over one that is locked by somebody.
create or replace function windlass.join_finish(
  p_tenant text, p_id uuid, p_token bigint, p_finish json, p_progress json default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set timezone = 'UTC'
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_id and l.token = p_token for update;
  if not found then
    raise exception 'the lease with token % on run % is lost', p_token, p_id
      using errcode = 'WL013', detail = json_build_array(p_id, p_token)::text;
  end if;
  if p_progress is not null then
    perform windlass.record_progress(p_progress);
  end if;
  perform windlass.finish(p_finish);
end
$$;
