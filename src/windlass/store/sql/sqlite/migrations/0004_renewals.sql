-- When a worker was last heard of: alive_until alone does not tell how long its lease is.

alter table workers add column renewed_at integer;
