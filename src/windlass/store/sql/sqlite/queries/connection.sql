-- What each connection is set to, and the one way to open a transaction.

-- name: settings
-- No switch for less than a flush at each commit, on macOS down to the platter. Files are never
-- mapped into memory. A full log is copied back to the file every 16 MiB: every 4 MiB is
-- slower, and this much is still read in an instant after a crash.
pragma synchronous = full;
pragma fullfsync = on;
pragma checkpoint_fullfsync = on;
pragma foreign_keys = on;
pragma trusted_schema = off;
pragma cell_size_check = on;
pragma mmap_size = 0;
pragma temp_store = memory;
pragma cache_size = -65536;
pragma wal_autocheckpoint = 4000;
pragma journal_size_limit = 67108864;

-- name: begin_write
begin immediate

-- name: begin_exclusive
-- Only if nobody else has the file locked, not even for reading.
begin exclusive

-- name: begin_read
begin deferred

-- name: commit
commit

-- name: rollback
rollback

-- name: savepoint
savepoint one_call

-- name: release_savepoint
release one_call

-- name: undo_savepoint
rollback to one_call
