-- The schema's own bookkeeping. Migrations and checkups run these after `settle`.

-- name: settle
-- For one transaction: names mean what PostgreSQL means by them, signatures are written in one way,
-- and a migration may take its time.
set local search_path = pg_catalog, pg_temp;
set local quote_all_identifiers = off;
set local standard_conforming_strings = on;
set local check_function_bodies = on;
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0

-- name: may_read_state
-- Whether we may read the tables of the bookkeeping; no row where they are not there. They must be
-- tables that run nobody's code when they are read.
select bool_and(pg_catalog.has_table_privilege(c.oid, 'select'))
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'windlass' and c.relname in ('migrations', 'routines') and c.relkind = 'r'
   and not c.relrowsecurity
having count(*) = 2

-- name: read_state
-- A superuser runs no code of a schema that may be somebody's trap: see owners.py.
select coalesce(max(m.version), 0), (select max(r.protocol) from windlass.routines r)
  from windlass.migrations m

-- name: ask_state
-- For clients, which may call functions and nothing else.
select s.version, s.protocol from windlass.schema_state() s

-- name: lock_schema
-- One migration at a time in this database; held until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('windlass.migrate', 0))

-- name: schema_owner
-- Whose it is, who we are, whether we are that, and whether we may act as that: see owners.py.
select pg_get_userbyid(n.nspowner)::text, current_user::text, n.nspowner = us.oid,
       not us.rolsuper and not coalesce(o.rolcanlogin, true)
       and pg_has_role(us.oid, n.nspowner, 'member')
  from pg_namespace n
  join pg_roles us on us.rolname = current_user
  left join pg_roles o on o.oid = n.nspowner
 where n.nspname = 'windlass'

-- name: create_schema
-- Not "if not exists": one that somebody else has made meanwhile is not ours.
create schema windlass

-- name: foreign_objects
-- Whatever is in the schema and belongs to another role than the schema does, and triggers on our
-- tables that run another role's function. What belongs to the role by which the cluster was made (10)
-- has no entry in pg_shdepend.
select x.what, pg_get_userbyid(x.owner)::text, pg_get_userbyid(n.nspowner)::text
  from pg_namespace n
 cross join lateral (
   select pg_describe_object(d.classid, d.objid, 0) as what, coalesce(s.refobjid, 10) as owner
     from pg_depend d
     left join pg_shdepend s
       on s.dbid = (select b.oid from pg_database b where b.datname = current_database())
      and s.classid = d.classid and s.objid = d.objid and s.objsubid = 0 and s.deptype = 'o'
    where d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid
    union all
   select pg_describe_object('pg_trigger'::regclass, t.oid, 0), p.proowner
     from pg_class c
     join pg_trigger t on t.tgrelid = c.oid and not t.tgisinternal
     join pg_proc p on p.oid = t.tgfoid
    where c.relnamespace = n.oid) x
 where n.nspname = 'windlass' and x.owner <> n.nspowner
 order by 1

-- name: creators
-- Who may create things in the schema beside its owner.
select case when a.grantee = 0 then 'everybody' else pg_get_userbyid(a.grantee)::text end
  from pg_namespace n cross join lateral aclexplode(n.nspacl) a
 where n.nspname = 'windlass' and a.privilege_type = 'CREATE' and a.grantee <> n.nspowner
 order by 1

-- name: revoke_create
select distinct format('revoke create on schema windlass from %s cascade',
                       case when a.grantee = 0 then 'public'
                            else quote_ident(pg_get_userbyid(a.grantee)) end)
  from pg_namespace n cross join lateral aclexplode(n.nspacl) a
 where n.nspname = 'windlass' and a.privilege_type = 'CREATE' and a.grantee <> n.nspowner

-- name: create_bookkeeping
create table if not exists windlass.migrations (
  version    integer primary key,
  name       text not null,
  checksum   text not null,
  applied_at timestamptz not null default now()
);
-- Each function and view, by its signature: as it was made, and from which text.
create table if not exists windlass.routines (
  name        text primary key,
  fingerprint text not null,
  protocol    integer not null,
  checksum    text not null,
  applied_at  timestamptz not null default now()
)

-- name: applied_migrations
select version, checksum from windlass.migrations order by version

-- name: record_migration
insert into windlass.migrations (version, name, checksum) values (%s, %s, %s)

-- name: recorded_routines
select name, fingerprint, protocol, checksum from windlass.routines

-- name: record_routine
insert into windlass.routines (name, fingerprint, protocol, checksum) values (%s, %s, %s, %s)

-- name: forget_routines
delete from windlass.routines

-- name: installed_routines
-- All that makes a function is in its definition; of an aggregate there is none, and none is ours.
select p.oid::regprocedure::text,
       md5(case when p.prokind in ('f', 'p') then pg_get_functiondef(p.oid) else '' end)
  from pg_proc p where p.pronamespace = to_regnamespace('windlass')
 union all
select c.oid::regclass::text, md5(concat(pg_get_viewdef(c.oid), c.reloptions::text))
  from pg_class c where c.relnamespace = to_regnamespace('windlass') and c.relkind = 'v'

-- name: all_routines
-- What would drop all functions, then all views. Together, because some depend on others. Not those of
-- triggers: they take and return nothing, so they can always be replaced.
select x.statement
  from (select 1 as n, 'drop routine ' || string_agg(p.oid::regprocedure::text, ', ') as statement
          from pg_proc p
         where p.pronamespace = 'windlass'::regnamespace and p.prorettype <> 'trigger'::regtype
         union all
        select 2, 'drop view ' || string_agg(c.oid::regclass::text, ', ')
          from pg_class c
         where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'v') x
 where x.statement is not null
 order by x.n

-- name: stale_routines
-- The same for those that were not written together with the others just now: no file defines them.
select x.statement
  from (select 1 as n, 'drop routine ' || string_agg(p.oid::regprocedure::text, ', ') as statement
          from pg_proc p
         where p.pronamespace = 'windlass'::regnamespace
           and p.xmin <> (select w.xmin from pg_proc w
                           where w.oid = 'windlass.now()'::regprocedure)
         union all
        select 2, 'drop view ' || string_agg(c.oid::regclass::text, ', ')
          from pg_class c
         where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'v'
           and not c.relname = any (%s)) x
 where x.statement is not null
 order by x.n

-- name: granted
-- Who was granted which function, or may read which view, by its name.
select distinct p.proname::text, a.grantee, a.is_grantable
  from pg_proc p cross join lateral aclexplode(p.proacl) a
 where p.pronamespace = 'windlass'::regnamespace and a.grantee not in (0, p.proowner)
 union
select c.relname::text, a.grantee, a.is_grantable
  from pg_class c cross join lateral aclexplode(c.relacl) a
 where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'v'
   and a.privilege_type = 'SELECT' and a.grantee not in (0, c.relowner)

-- name: lost_grants
-- What would grant the functions or the view of a name to a role that has lost them, or never had
-- this form.
with g as (select %s::text as name, %s::oid as role, %s::boolean as grantable)
select format('grant execute on function %%s to %%I%%s', p.oid::regprocedure,
              pg_get_userbyid(g.role), case when g.grantable then ' with grant option' end)
  from g
  join pg_proc p on p.proname = g.name and p.pronamespace = 'windlass'::regnamespace
 where not exists (select 1 from aclexplode(p.proacl) a
                    where a.grantee = g.role and a.is_grantable >= g.grantable)
 union all
select format('grant select on %%s to %%I%%s', c.oid::regclass,
              pg_get_userbyid(g.role), case when g.grantable then ' with grant option' end)
  from g
  join pg_class c on c.relname = g.name and c.relnamespace = 'windlass'::regnamespace
                 and c.relkind = 'v'
 where not exists (select 1 from aclexplode(c.relacl) a
                    where a.grantee = g.role and a.privilege_type = 'SELECT'
                      and a.is_grantable >= g.grantable)

-- name: revoke_public
-- PostgreSQL grants EXECUTE on new functions to everybody; we do not.
revoke all on all routines in schema windlass from public;
revoke all on all tables in schema windlass from public;
revoke all on schema windlass from public
