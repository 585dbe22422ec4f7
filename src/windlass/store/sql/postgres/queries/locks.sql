-- Who holds what others wait for.

-- name: lock_holder
-- The oldest transaction of another session that has locked rows, or a table, of the schema. When a
-- call has given up waiting nobody can tell any more for whom it waited; this one it most likely was.
select l.pid, coalesce(a.application_name, ''),
       extract(epoch from clock_timestamp() - a.xact_start)::double precision
  from pg_locks l
  join pg_class c on c.oid = l.relation
  left join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'relation' and l.granted
   and l.database = (select d.oid from pg_database d where d.datname = current_database())
   and c.relnamespace = to_regnamespace('windlass')
   and l.mode not in ('AccessShareLock', 'ShareUpdateExclusiveLock')  -- readers, vacuum
   and l.pid is not null and l.pid <> pg_backend_pid()
 order by a.xact_start limit 1
