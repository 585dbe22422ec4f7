-- Record what is known of an artifact; an id that is known stays as it is. Returns the row.
create or replace function windlass.put_artifact(
  p_tenant text, p_id uuid, p_name text, p_content_type text, p_size bigint, p_sha256 text,
  p_location text, p_run uuid default null
) returns windlass.artifacts
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_row windlass.artifacts;
begin
  insert into windlass.artifacts (tenant, id, name, content_type, size, sha256, location, run,
                                  created_at)
  values (p_tenant, p_id, p_name, p_content_type, p_size, p_sha256, p_location, p_run,
          windlass.now())
  on conflict (tenant, id) do nothing;
  select a.* into v_row from windlass.artifacts a where a.tenant = p_tenant and a.id = p_id;
  return v_row;
end
$$;

-- Forget an artifact; false where there is none.
create or replace function windlass.delete_artifact(p_tenant text, p_id uuid) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
begin
  delete from windlass.artifacts a where a.tenant = p_tenant and a.id = p_id;
  return found;
end
$$;

-- The same for a run of its tenant, under its token. Null: the lease is lost, nothing was deleted.
create or replace function windlass.delete_artifact_under(
  p_tenant text, p_run uuid, p_token bigint, p_id uuid
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
begin
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_run and l.token = p_token for key share;
  if not found then
    return null;
  end if;
  return windlass.delete_artifact(p_tenant, p_id);
end
$$;
