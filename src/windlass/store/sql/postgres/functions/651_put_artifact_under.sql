-- Record an artifact of a run, under its token; it takes the place of the run's one of that name. One with the
-- same bytes stays as it is. Returns the artifact, null if the lease is lost, and the one that it replaced.
create or replace function windlass.put_artifact_under(
  p_tenant text, p_run uuid, p_token bigint, p_id uuid, p_name text, p_content_type text,
  p_size bigint, p_sha256 text, p_location text,
  out artifact windlass.artifacts, out replaced windlass.artifacts
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '5s'
as $$
begin
  -- Not shared: two threads of a handler may put the same name.
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_run and l.token = p_token for no key update;
  if not found then
    return;
  end if;
  select a.* into artifact from windlass.artifacts a
    where a.tenant = p_tenant and a.run = p_run and a.name = p_name collate "C";
  if found then
    if artifact.sha256 = p_sha256 and artifact.size = p_size then
      return;
    end if;
    replaced := artifact;
    delete from windlass.artifacts a where a.tenant = p_tenant and a.id = replaced.id;
  end if;
  artifact := windlass.put_artifact(p_tenant, p_id, p_name, p_content_type, p_size, p_sha256,
                                    p_location, p_run);
end
$$;
