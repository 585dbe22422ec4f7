-- What operators ask: who works, what waits, what should have ended.

-- name: inspect_workers
select windlass.json_text(w) from windlass.inspect_workers(%s) w

-- name: inspect_demand
select windlass.json_text(d) from windlass.inspect_demand(%s) d

-- name: inspect_overdue
select windlass.json_text(o) from windlass.inspect_overdue(%s, %s) o

-- name: count_runs
select windlass.json_text(c) from windlass.count_runs(%s, %s, %s) c

-- name: queue_ages
select windlass.json_text(a) from windlass.queue_ages(%s, %s) a
