-- Through the caller's connection, in the caller's transaction: every argument is text, so that
-- no driver's own idea of a type comes in between, and the hint to workers rides along.

-- name: join_enqueue
-- Instants as numbers, which no setting of the caller's session changes.
select e.id::text, e.created::text, e.status, extract(epoch from e.created_at)::text,
       extract(epoch from e.scheduled_for)::text,
       case when e.created and %s::text::boolean then pg_notify('windlass', '')::text end
  from windlass.enqueue(%s::text, %s::text::json, %s::text::uuid, %s::text, %s::text,
                        %s::text::integer, %s::text::double precision, %s::text::timestamptz,
                        %s::text, %s::text::double precision, %s::text::text[],
                        %s::text::double precision, %s::text::timestamptz,
                        %s::text::double precision, %s::text::timestamptz, %s::text::json,
                        %s::text, %s::text, %s::text::json, %s::text::uuid) e

-- name: join_enqueue_many
select windlass.enqueue_many(%s::text::json, %s::text::boolean)::text,
       case when %s::text::boolean then pg_notify('windlass', '')::text end

-- name: join_get_runs
select windlass.json_text(v) from windlass.get_runs(%s::text, %s::text::uuid[]) v

-- name: join_step
select windlass.join_step(%s::text, %s::text::uuid, %s::text::bigint, %s::text, %s::text::json)::text

-- name: join_finish
select windlass.join_finish(%s::text, %s::text::uuid, %s::text::bigint, %s::text::json, %s::text::json)::text
