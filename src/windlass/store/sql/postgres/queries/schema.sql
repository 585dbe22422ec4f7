-- The schema's own bookkeeping.

-- name: schema_exists
select to_regclass('windlass.migrations') is not null

-- name: schema_version
select coalesce(max(version), 0) from windlass.migrations

-- name: lock_schema
-- One migration at a time in this database; held until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('windlass.migrate', 0))

-- name: create_bookkeeping
create schema if not exists windlass;
create table if not exists windlass.migrations (
  version    integer primary key,
  name       text not null,
  checksum   text not null,
  applied_at timestamptz not null default now()
);
create table if not exists windlass.routines (
  name       text primary key,
  checksum   text not null,
  applied_at timestamptz not null default now()
)

-- name: applied_migrations
select version, checksum from windlass.migrations order by version

-- name: applied_routines
select name, checksum from windlass.routines

-- name: record_migration
insert into windlass.migrations (version, name, checksum) values (%s, %s, %s)

-- name: record_routine
insert into windlass.routines (name, checksum) values (%s, %s)
on conflict (name) do update set checksum = excluded.checksum, applied_at = now()

-- name: revoke_public
-- PostgreSQL grants EXECUTE on new functions to everybody; we do not.
revoke all on all functions in schema windlass from public;
revoke all on all tables in schema windlass from public;
revoke all on schema windlass from public
