-- Retention: what is over and goes away.

-- name: tidy
select windlass.tidy(%s::json, %s)::text

-- name: delete_runs
select windlass.delete_runs(%s, %s::uuid[])::text

-- name: measure_growth
select windlass.json_text(g) from windlass.measure_growth(%s) g
