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

-- name: put_artifact_under
select windlass.json_text(p)
  from windlass.put_artifact_under(%s, %s::uuid, %s::bigint, %s::uuid, %s, %s, %s::bigint, %s, %s) p

-- name: find_artifact
select windlass.json_text(a) from windlass.find_artifact(%s, %s::uuid, %s) a

-- name: list_artifacts
select windlass.json_text(a) from windlass.list_artifacts(%s, %s::uuid, %s, %s::integer) a

-- name: known_artifacts
select a::text from windlass.known_artifacts(%s, %s::uuid[]) a

-- name: forget_artifacts
select windlass.json_text(a) from windlass.forget_artifacts(%s, %s::uuid, %s::integer) a
