-- Batches, their shards and units: see domain/batch.py.

-- name: open_batch
select windlass.open_batch(%s, %s::uuid, %s::bigint, %s::bigint, %s::integer, %s::integer, %s, %s::json)::text

-- name: open_shard
select windlass.open_shard(%s, %s::uuid, %s::bigint)::text

-- name: flush_shard
select windlass.flush_shard(%s, %s::uuid, %s::bigint, %s::json)::text

-- name: split_shard
select windlass.split_shard(%s, %s::uuid, %s::bigint, %s::bigint, %s::bigint, %s::json)::text

-- name: list_units
select first::text, units::text from windlass.list_units(%s, %s::uuid, %s::bigint)

-- name: stage_units
select windlass.stage_units(%s, %s::uuid, %s::bigint, %s::json, %s)

-- name: seal_units
select windlass.seal_units(%s, %s::uuid, %s::bigint, %s)::text

-- name: drop_units
select windlass.drop_units(%s, %s::uuid)::text

-- name: sweep_units
select windlass.sweep_units(%s)::text

-- name: get_batch
select windlass.json_text(b) from windlass.get_batch(%s, %s::uuid) b

-- name: list_failed_units
select windlass.json_text(f) from windlass.list_failed_units(%s, %s::uuid, %s::bigint, %s::integer) f
