-- What the server tells of itself, for the checkup. Reads only, and needs none of our tables.

-- name: server_version
select current_setting('server_version_num')::integer, current_setting('server_version'),
       pg_is_in_recovery()

-- name: durability_settings
-- As they are for this session: what was set for the role or the database is in it.
select s.name, s.setting, s.source from pg_settings s
 where s.name in ('fsync', 'synchronous_commit', 'full_page_writes', 'synchronous_standby_names')

-- name: role_settings
-- What is set for other roles, here or everywhere: their sessions are not ours. What is in force
-- in ours is told by the settings above.
select coalesce(d.datname, ''), coalesce(r.rolname, ''), c.setting
  from pg_db_role_setting s
 cross join unnest(s.setconfig) as c(setting)
  left join pg_database d on d.oid = s.setdatabase
  left join pg_roles r on r.oid = s.setrole
 where c.setting like 'synchronous\_commit=%%'
   and (s.setdatabase = 0 or d.datname = current_database())
   and r.rolname is distinct from session_user
   and not (s.setrole = 0 and exists (select 1 from pg_settings x
                                       where x.name = 'synchronous_commit'
                                         and x.source = 'database'))

-- name: session_settings
-- Null where the server does not know a setting, or it is not set.
select n.name, current_setting(n.name, true)
  from unnest(array['default_transaction_read_only', 'default_transaction_isolation',
                    'windlass.fake_now']) as n(name)
 union all
select s.name, s.setting from pg_settings s
 where s.name in ('statement_timeout', 'lock_timeout', 'transaction_timeout',
                  'idle_session_timeout')

-- name: stored_settings
-- What is set for roles and for this database, in sessions that are not ours too.
select coalesce(d.datname, '')::text, coalesce(r.rolname, '')::text, c.setting
  from pg_db_role_setting s
 cross join unnest(s.setconfig) as c(setting)
  left join pg_database d on d.oid = s.setdatabase
  left join pg_roles r on r.oid = s.setrole
 where s.setdatabase = 0 or d.datname = current_database()
 order by 1, 2, 3

-- name: server_clock
select extract(epoch from clock_timestamp())::text

-- name: server_process
select pg_backend_pid()

-- name: sessions
select count(*) from pg_stat_activity a
 where a.datname = current_database() and a.backend_type = 'client backend'

-- name: long_transactions
-- A transaction of any database holds back the feed; one of ours also vacuum.
select a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(a.datname, ''),
       coalesce(a.state, ''), extract(epoch from clock_timestamp() - a.xact_start)::double precision
  from pg_stat_activity a
 where a.xact_start < clock_timestamp() - make_interval(secs => %s)
   and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
 order by a.xact_start limit 10

-- name: prepared_transactions
select p.gid, p.owner, p.database,
       extract(epoch from clock_timestamp() - p.prepared)::double precision
  from pg_prepared_xacts p
 where p.prepared < clock_timestamp() - make_interval(secs => %s)
 order by p.prepared limit 10

-- name: hidden_sessions
-- Sessions of others of which we are not told whether they are in a transaction.
select count(*) from pg_stat_activity a
 where a.datname is not null and a.query = '<insufficient privilege>'

-- name: vacuum_settings
select current_setting('autovacuum')::boolean, current_setting('track_counts')::boolean

-- name: unvacuumed_tables
select c.relname from pg_class c
 where c.relnamespace = to_regnamespace('windlass') and c.relkind = 'r'
   and 'autovacuum_enabled=false' = any (c.reloptions)
 order by c.relname

-- name: dead_rows
select s.relname, s.n_dead_tup, s.n_live_tup from pg_stat_user_tables s
 where s.schemaname = 'windlass' and s.n_dead_tup > greatest(%s, s.n_live_tup)
 order by s.n_dead_tup desc

-- name: public_routines
-- What everybody may call: so it is of a new function, until that is revoked.
select p.oid::regprocedure::text
  from pg_proc p
 cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
 where p.pronamespace = to_regnamespace('windlass') and a.grantee = 0
 order by 1

-- name: schema_columns
select c.relname::text, a.attname::text
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace = to_regnamespace('windlass') and c.relkind in ('r', 'p')

-- name: schema_indexes
select c.relname::text, i.indisvalid and i.indisready
  from pg_class c join pg_index i on i.indexrelid = c.oid
 where c.relnamespace = to_regnamespace('windlass')

-- name: schema_triggers
-- Those that are switched on.
select t.tgname::text
  from pg_class c join pg_trigger t on t.tgrelid = c.oid
 where c.relnamespace = to_regnamespace('windlass') and not t.tgisinternal and t.tgenabled = 'O'

-- name: data_folder
-- Null where we may not know.
select case when pg_has_role('pg_read_all_settings', 'usage')
            then current_setting('data_directory') end,
       pg_database_size(current_database())

-- name: listen_once
listen windlass_doctor

-- name: notify_once
select pg_notify('windlass_doctor', '')
