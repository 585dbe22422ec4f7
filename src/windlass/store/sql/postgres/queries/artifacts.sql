-- Artifacts: metadata of bytes that are kept elsewhere.

-- name: put_artifact
select windlass.json_text(a)
  from windlass.put_artifact(%s, %s::uuid, %s, %s, %s::bigint, %s, %s, %s::uuid) a

-- name: get_artifact
select windlass.json_text(a) from windlass.get_artifact(%s, %s::uuid) a

-- name: delete_artifact
select windlass.delete_artifact(%s, %s::uuid)

-- name: delete_artifact_under
select windlass.delete_artifact_under(%s, %s::uuid, %s::bigint, %s::uuid)
