-- The schema's own version, one row per migration that was applied.

-- name: has_versions
select 1 from sqlite_schema where type = 'table' and name = 'schema_version'

-- name: create_versions
create table if not exists schema_version (
  version    integer primary key,
  name       text not null,
  applied_at integer not null
) strict

-- name: schema_version
select coalesce(max(version), 0) from schema_version

-- name: made_at
-- When the store was made: what it is known by. Of its first version, not the earliest instant:
-- a clock that was set back may have stamped a later one.
select applied_at from schema_version order by version limit 1

-- name: last_page
-- How far the store has come. The number of its last page, also if that is deleted by now.
select coalesce(max(seq), 0) from sqlite_sequence where name = 'pages'

-- name: insert_version
insert into schema_version (version, name, applied_at) values (:version, :name, :now)
