-- Stores for tests.

-- name: contents
-- The tables that hold what was enqueued and scheduled; the others are the schema's bookkeeping.
select c.relname::text
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'windlass' and c.relkind in ('r', 'p') and not c.relispartition
   and c.relname not in ('migrations', 'routines')

-- name: whereabouts
-- The database and the server that a connection leads to, the database's name, and the transaction.
-- A server may be reached by many names; it has started only once.
select oid::text, extract(epoch from pg_postmaster_start_time())::text, datname::text,
       pg_current_xact_id()::text
  from pg_database where datname = current_database()

-- name: still_open
-- Of these transactions those that go on; but not the one that asks, which sees what it has done.
select coalesce(json_agg(id), '[]')::text from unnest(%s::text[]) as t(id)
 where pg_xact_status(id::xid8) = 'in progress'
   and id::xid8 is distinct from pg_current_xact_id_if_assigned()

-- name: filled
select exists (select from windlass.runs)

-- name: begin_lazily
-- Any statement: the driver begins a transaction before its first one.
select 1
