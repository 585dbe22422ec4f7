-- What the Python store says to the functions. Arrays travel as literals, which are cheap to
-- write and to read; everything else as text or JSON.
--
-- No setting of the session may change what is read: instants come back as seconds since 1970, or in
-- a document that windlass.json_text has written; nothing else that the driver would convert.

-- name: sync_jobs
select windlass.sync_jobs(%s::json, %s)

-- name: get_job
select windlass.json_text(j) from windlass.get_job(%s, %s) j

-- name: list_jobs
select windlass.json_text(j) from windlass.list_jobs(%s) j

-- name: enqueue
select id::text, created::text, status, extract(epoch from created_at)::text,
       extract(epoch from scheduled_for)::text
  from windlass.enqueue(%s, %s::json, %s::uuid, %s, %s, %s::integer, %s::double precision,
                        %s::timestamptz, %s, %s::double precision, %s::text[],
                        %s::double precision, %s::timestamptz, %s::double precision, %s::timestamptz,
                        %s::json, %s, %s)

-- name: enqueue_one
select windlass.enqueue_one(%s, %s::uuid, %s, %s, %s, %s::integer, %s::json)::text

-- name: enqueue_plain
select windlass.enqueue_plain(%s::text[], %s::uuid[], %s::text[], %s::text[], %s::text[],
                              %s::integer[], %s::json[])::text

-- name: enqueue_many
select windlass.enqueue_many(%s::json, %s, %s)::text

-- name: register
select extract(epoch from windlass.register(%s, %s, %s, %s, %s, %s::text[], %s::text[], %s))::text

-- name: cycle
select kind, tenant, id::text, job, queue, token, attempt, failures, crash_count,
       input::text, options::text, trace, rank, extract(epoch from ready_at)::text,
       case when kind = 'now' then extract(epoch from started_at)::text end, schedule::text,
       extract(epoch from slot)::text, extract(epoch from deadline_at)::text,
       extract(epoch from deadline_at - started_at)::text
  from windlass.cycle(%s, %s, %s::text[], %s::uuid[], %s::bigint[], %s::json[], %s::json,
                      %s, %s::text[], %s::text[], %s::json, %s::integer, %s::text[], %s::uuid[],
                      %s::bigint)

-- name: renew
select json_strip_nulls(
         windlass.renew(%s, %s, %s::text[], %s::uuid[], %s::bigint[], %s, %s::json))::text

-- name: retire
select windlass.retire(%s)

-- name: list_workers
select windlass.json_text(w) from windlass.list_workers() w

-- name: sweep
select json_strip_nulls(windlass.sweep(%s, %s, %s, %s, %s, %s, %s))::text

-- name: unpublished
select tenant, id::text from windlass.unpublished(%s, %s)

-- name: cancel
select windlass.json_text(v) from windlass.cancel(%s, %s::uuid, %s) v

-- name: retry
select windlass.json_text(v) from windlass.retry(%s, %s::uuid, %s::integer) v

-- name: reschedule
select windlass.json_text(v)
  from windlass.reschedule(%s, %s::uuid, %s::timestamptz, %s::double precision) v

-- name: reprioritize
select windlass.json_text(v) from windlass.reprioritize(%s, %s::uuid, %s::integer, %s) v

-- name: discard
select windlass.discard(%s, %s::uuid[])

-- name: progress
select windlass.progress(%s, %s::uuid, %s, %s::double precision, %s)

-- name: get_runs
select windlass.json_text(v) from windlass.get_runs(%s, %s::uuid[]) v

-- name: has_ended
select windlass.has_ended(%s, %s::uuid)

-- name: list_runs
select windlass.json_text(v)
  from windlass.list_runs(%s, %s, %s, %s, %s, %s, %s, %s::timestamptz, %s::timestamptz,
                          %s::uuid, %s) v

-- name: list_attempts
select windlass.json_text(a) from windlass.list_attempts(%s, %s::uuid, %s, %s) a

-- name: list_events
select windlass.json_text(e) from windlass.list_events(%s, %s::uuid, %s, %s) e

-- name: list_feed
select windlass.json_text(e) from windlass.list_feed(%s, %s) e

-- name: backlog
select windlass.json_text(b) from windlass.backlog(%s::text[], %s::text[]) b

-- name: notify
-- A hint need not be durable: its commit waits for no disk and no standby.
select pg_notify('windlass', ''), set_config('synchronous_commit', 'off', true)

-- name: new_session
-- Who answers, and how its transactions are isolated unless they say otherwise.
select pg_backend_pid(), current_setting('default_transaction_isolation')

-- name: read_committed
-- The functions lock in one statement and read in the next, which must see what was committed while
-- the first one waited.
set transaction isolation level read committed

-- name: listen
listen windlass

-- name: fake_now
select set_config('windlass.fake_now', %s, true)
