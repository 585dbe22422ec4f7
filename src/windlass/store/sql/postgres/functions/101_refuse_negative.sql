-- Raises WL005: a length of time must not be negative. Called where one is, so that a batch pays
-- nothing for the check.
create or replace function windlass.refuse_negative(p_job text) returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  raise exception 'delay, key_ttl and expires_in must not be negative'
    using errcode = 'WL005',
          detail = json_build_array(p_job, 'takes no negative delay, key_ttl or expires_in')::text;
end
$$;
