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

-- name: forget_routines
delete from windlass.routines

-- name: stale_functions
-- What would drop the functions that nobody has written in this transaction: no file defines them.
select format('drop function %s', p.oid::regprocedure)
  from pg_proc p
 where p.pronamespace = 'windlass'::regnamespace and p.prokind = 'f'
   and p.xmin <> pg_current_xact_id()::xid

-- name: granted
-- Who was granted which function, by its name.
select distinct p.proname::text, a.grantee, a.is_grantable
  from pg_proc p cross join lateral aclexplode(p.proacl) a
 where p.pronamespace = 'windlass'::regnamespace and a.grantee not in (0, p.proowner)

-- name: lost_grants
-- What would grant the functions of a name to a role that has lost them, or never had this form.
select format('grant execute on function %%s to %%I%%s', p.oid::regprocedure,
              pg_get_userbyid(g.role), case when g.grantable then ' with grant option' end)
  from (select %s::text as name, %s::oid as role, %s::boolean as grantable) g
  join pg_proc p on p.proname = g.name and p.pronamespace = 'windlass'::regnamespace
 where not exists (select 1 from aclexplode(p.proacl) a
                    where a.grantee = g.role and a.is_grantable >= g.grantable)

-- name: revoke_public
-- PostgreSQL grants EXECUTE on new functions to everybody; we do not.
revoke all on all functions in schema windlass from public;
revoke all on all tables in schema windlass from public;
revoke all on schema windlass from public
