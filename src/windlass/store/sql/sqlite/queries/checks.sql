-- What a connection and the file tell of themselves, for the checkup.

-- name: synchronous
pragma synchronous

-- name: mmap_size
pragma mmap_size

-- name: journal_mode
pragma journal_mode
