-- What the Python store says of schedules. A schedule is named by its id or, where that is null,
-- by its key.

-- name: put_schedules
select what, schedule::text from windlass.put_schedules(%s::json) order by n

-- name: get_schedule
select windlass.json_text(s) from windlass.get_schedule(%s, %s::uuid, %s) s

-- name: list_schedules
select windlass.json_text(s) from windlass.list_schedules(%s, %s, %s, %s, %s::uuid, %s) s

-- name: enable_schedule
select windlass.enable_schedule(%s, %s::uuid, %s, %s, %s::timestamptz, %s::bigint)::text

-- name: delete_schedule
select windlass.delete_schedule(%s, %s::uuid, %s, %s)

-- name: forget_slots
select windlass.forget_slots(%s)

-- name: due_schedules
select windlass.due_schedules(%s)::text

-- name: coming_schedules
select windlass.coming_schedules(%s, %s::uuid, %s)::text

-- name: fire_schedules
select windlass.fire_schedules(%s::json, %s)::text

-- name: release_waiting
select windlass.release_waiting(%s)::text

-- name: list_slots
select windlass.json_text(k)
  from windlass.list_slots(%s, %s::uuid, %s, %s::timestamptz, %s) k
