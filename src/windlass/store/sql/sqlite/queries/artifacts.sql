-- Artifacts: metadata of bytes that are kept elsewhere.

-- name: put_artifact
insert into artifacts (tenant, id, name, content_type, size, sha256, location, run, created_at)
values (:tenant, :id, :name, :content_type, :size, :sha256, :location, :run, :created_at)
on conflict (tenant, id) do nothing

-- name: get_artifact
select tenant, id, name, content_type, size, sha256, location, run, created_at
  from artifacts where tenant = :tenant and id = :id

-- name: find_artifact
select tenant, id, name, content_type, size, sha256, location, run, created_at
  from artifacts where tenant = :tenant and run = :run and name = :name

-- name: list_artifacts
select tenant, id, name, content_type, size, sha256, location, run, created_at
  from artifacts where tenant = :tenant and run = :run and name > :after
  order by name limit :limit

-- name: delete_artifact
delete from artifacts where tenant = :tenant and id = :id
