-- What a connection and the file tell of themselves, for the checkup.

-- name: synchronous
pragma synchronous

-- name: mmap_size
pragma mmap_size

-- name: journal_mode
pragma journal_mode

-- name: tables
-- Those that grow last.
select name from sqlite_schema where type = 'table' and name not like 'sqlite~_%' escape '~'
 order by name in ('runs', 'attempt_rows', 'event_rows', 'pages'), name <> 'runs', name

-- name: quick_check
select * from pragma_quick_check(:table)

-- name: integrity_check
pragma integrity_check

-- name: foreign_key_check
pragma foreign_key_check
