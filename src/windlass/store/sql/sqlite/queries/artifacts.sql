-- Artifacts: metadata of bytes that are kept elsewhere.

-- name: put_artifact
insert into artifacts (tenant, id, name, content_type, size, sha256, location, run, created_at)
values (:tenant, :id, :name, :content_type, :size, :sha256, :location, :run, :created_at)
on conflict (tenant, id) do nothing

-- name: get_artifact
select tenant, id, name, content_type, size, sha256, location, run, created_at
  from artifacts where tenant = :tenant and id = :id

-- name: delete_artifact
delete from artifacts where tenant = :tenant and id = :id
