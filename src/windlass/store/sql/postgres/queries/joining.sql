-- Through the caller's connection, in the caller's transaction: every argument is text, so that
-- no driver's own idea of a type comes in between, and the hint to workers rides along.

-- name: join_enqueue
select row_to_json(e)::text,
       case when e.created and %s::text::boolean then pg_notify('windlass', '')::text end
  from windlass.enqueue(%s::text, %s::text::json, %s::text::uuid, %s::text, %s::text,
                        %s::text::integer, %s::text::double precision, %s::text::timestamptz,
                        %s::text, %s::text::double precision, %s::text::text[],
                        %s::text::double precision, %s::text::timestamptz, %s::text::json,
                        %s::text, %s::text) e

-- name: join_enqueue_many
select windlass.enqueue_many(%s::text::json, %s::text::boolean)::text,
       case when %s::text::boolean then pg_notify('windlass', '')::text end

-- name: join_get_runs
select row_to_json(v)::text from windlass.get_runs(%s::text, %s::text::uuid[]) v
