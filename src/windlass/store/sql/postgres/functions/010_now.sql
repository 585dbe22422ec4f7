-- The store's clock. Tests set windlass.fake_now for a transaction; nobody else does. Any role can
-- set it, but time decides who is dead, what is due and which keys are free: it counts only in
-- sessions of the schema's owner, or of a member of that role.
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
  if pg_has_role(session_user, (select n.nspowner from pg_namespace n
                                 where n.nspname = 'windlass'), 'member') then
    return v_fake::timestamptz;
  end if;
  return clock_timestamp();
end
$$;
