-- The store's clock. Tests set windlass.fake_now for a transaction; nobody else does.
create or replace function windlass.now() returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_fake text := current_setting('windlass.fake_now', true);
begin
  if v_fake is null or v_fake = '' then
    return clock_timestamp();
  end if;
  return v_fake::timestamptz;
end
$$;
