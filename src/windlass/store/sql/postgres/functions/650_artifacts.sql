-- Record what is known of an artifact; an id that is known stays as it is. Returns the row.
create or replace function windlass.put_artifact(
  p_tenant text, p_id uuid, p_name text, p_content_type text, p_size bigint, p_sha256 text,
  p_location text, p_run uuid default null
) returns windlass.artifacts
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
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
as $$
begin
  delete from windlass.artifacts a where a.tenant = p_tenant and a.id = p_id;
  return found;
end
$$;
