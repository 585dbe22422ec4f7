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
                        %s::json, %s, %s, %s::json, %s::uuid)

-- name: enqueue_one
select e::text, e ->> 'hinted'
  from windlass.enqueue_one(%s, %s::uuid, %s, %s, %s, %s::integer, %s::json, %s, %s::uuid,
                            %s::boolean) e

-- name: enqueue_plain
select windlass.enqueue_plain(%s::text[], %s::uuid[], %s::text[], %s::text[], %s::text[],
                              %s::integer[], %s::json[], %s, %s::uuid)::text

-- name: enqueue_many
select windlass.enqueue_many(%s::json, %s, %s)::text

-- name: register
select extract(epoch from windlass.register(%s, %s, %s, %s, %s, %s::text[], %s::text[], %s))::text

-- name: cycle
select kind, tenant, id::text, job, queue, token, attempt, failures, crash_count,
       input::text, options::text, trace, rank, extract(epoch from ready_at)::text,
       case when kind = 'now' then extract(epoch from started_at)::text end, schedule::text,
       extract(epoch from slot)::text, extract(epoch from deadline_at)::text,
       extract(epoch from deadline_at - started_at)::text, extras::text
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
select windlass.json_text(v) from windlass.cancel(%s, %s::uuid, %s, %s) v

-- name: pause
select windlass.json_text(v) from windlass.pause(%s, %s::uuid, %s, %s) v

-- name: resume
select windlass.json_text(v) from windlass.resume(%s, %s::uuid, %s) v

-- name: terminate
select windlass.json_text(v) from windlass.terminate(%s, %s::uuid, %s, %s) v

-- name: restart
select windlass.json_text(v) from windlass.restart(%s, %s::uuid, %s, %s) v

-- name: retry
select windlass.json_text(v) from windlass.retry(%s, %s::uuid, %s::integer, %s::json, %s) v

-- name: reschedule
select windlass.json_text(v)
  from windlass.reschedule(%s, %s::uuid, %s::timestamptz, %s::double precision, %s) v

-- name: reprioritize
select windlass.json_text(v) from windlass.reprioritize(%s, %s::uuid, %s::integer, %s, %s) v

-- name: change
select windlass.json_text(v) from windlass.change(%s, %s::uuid, %s::json, %s) v

-- name: discard
select windlass.discard(%s, %s::uuid[], %s)

-- name: apply_to_many
select id::text, status, refusal, detail
  from windlass.apply_to_many(%s, %s, %s::uuid[], %s::json)

-- name: record_progress
select number, answer from windlass.record_progress(%s::json)

-- name: record_logs
select number, answer from windlass.record_logs(%s::json)

-- name: list_logs
select token, first, attempt, lines::text from windlass.list_logs(%s, %s::uuid, %s::bigint, %s::integer, %s)

-- name: record_steps
select answer, path, kind, state, seq, attempt, failures, extract(epoch from started_at)::text,
       extract(epoch from at)::text, extract(epoch from until)::text, input, signal, value::text,
       error::text, seconds_left::text
  from windlass.record_steps(%s::json)

-- name: list_steps
select 'step', path, kind, state, seq, attempt, failures, extract(epoch from started_at)::text,
       extract(epoch from at)::text, extract(epoch from until)::text, input, signal, value::text,
       error::text, "left"::text, generation
  from windlass.list_steps(%s, %s::uuid, %s, %s, %s)

-- name: start_children
select windlass.start_children(%s, %s::uuid, %s, %s::json, %s, %s::json, %s)::text

-- name: await_children
select answer, path, kind, state, seq, attempt, failures, extract(epoch from started_at)::text,
       extract(epoch from at)::text, extract(epoch from until)::text, input, signal, value::text,
       error::text, seconds_left::text
  from windlass.await_children(%s, %s::uuid, %s, %s, %s)

-- name: list_children
select windlass.json_text(c) from windlass.list_children(%s, %s::uuid, %s, %s, %s, %s) c

-- name: list_follows
select windlass.json_text(f) from windlass.list_follows(%s, %s::uuid, %s, %s) f

-- name: signal
select windlass.json_text(s) from windlass.signal(%s, %s::uuid, %s, %s::json, %s, %s) s

-- name: list_audit
select windlass.json_text(a)
  from windlass.list_audit(%s, %s, %s, %s::bigint, %s, %s) a

-- name: pause_work
select windlass.json_text(p) from windlass.pause_work(%s, %s, %s, %s, %s) p

-- name: settle_pauses
select windlass.settle_pauses()

-- name: resume_work
select windlass.json_text(p) from windlass.resume_work(%s, %s, %s, %s) p

-- name: list_pauses
select windlass.json_text(p) from windlass.list_pauses(%s) p

-- name: list_signals
select windlass.json_text(s) from windlass.list_signals(%s, %s::uuid, %s, %s) s

-- name: list_generations
select windlass.json_text(g) from windlass.list_generations(%s, %s::uuid, %s, %s) g

-- name: answer_approval
select windlass.json_text(a) from windlass.answer_approval(%s, %s::uuid, %s, %s, %s, %s, %s, %s) a

-- name: list_approvals
select windlass.json_text(a) from windlass.list_approvals(%s, %s::uuid, %s, %s) a

-- name: get_runs
select windlass.json_text(v) from windlass.get_runs(%s, %s::uuid[]) v

-- name: has_ended
select windlass.has_ended(%s, %s::uuid)

-- name: look_for_ends
select id::text, has_ended::text from windlass.look_for_ends(%s, %s::uuid[])

-- name: list_runs
select document, next::text from windlass.page_runs(%s::json)

-- name: find_runs
select array_to_string(ids, ','), next::text from windlass.find_runs(%s::json)

-- name: ids_between
select id::text from windlass.ids_between(%s, %s::uuid, %s::uuid, %s) as found(id)

-- name: list_attempts
select windlass.json_text(a) from windlass.list_attempts(%s, %s::uuid, %s, %s) a

-- name: list_events
select windlass.json_text(e) from windlass.list_events(%s, %s::uuid, %s, %s) e

-- name: list_feed
select windlass.json_text(e) from windlass.list_feed(%s, %s) e

-- name: find_place
select windlass.find_place(%s::timestamptz)

-- name: list_event_facts
select windlass.json_text(f) from windlass.list_event_facts(%s, %s::uuid[], %s::integer[]) f

-- name: emit
select windlass.emit(%s, %s::uuid, %s, %s, %s::json)

-- name: backlog
select windlass.json_text(b) from windlass.backlog(%s::text[], %s::text[]) b

-- name: notify
-- A hint need not be durable: its commit waits for no disk and no standby.
select pg_notify('windlass', ''), set_config('synchronous_commit', 'off', true)

-- name: new_session
-- Who answers, and how its transactions are isolated unless they say otherwise.
select pg_backend_pid(), current_setting('default_transaction_isolation')

-- name: database_reached
-- Which database a connection leads to, by whichever name and way: its name here, its own number, and
-- that of the server's files, which a standby shares.
select datname::text, oid::text, (select system_identifier::text from pg_control_system())
  from pg_database where datname = current_database()

-- name: read_committed
-- The functions lock in one statement and read in the next, which must see what was committed while
-- the first one waited.
set transaction isolation level read committed

-- name: listen
listen windlass

-- name: fake_now
select set_config('windlass.fake_now', %s, true)
