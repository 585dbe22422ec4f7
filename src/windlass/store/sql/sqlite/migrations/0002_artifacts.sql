-- Artifacts: what is known of bytes that are kept elsewhere, at `location`.

create table artifacts (
  tenant       text not null,
  id           blob not null check (length(id) = 16),
  name         text not null,
  content_type text not null,
  size         integer not null check (size >= 0),
  sha256       text not null check (length(sha256) = 64),
  location     text not null,
  run          blob,
  created_at   integer not null,
  primary key (tenant, id)
) strict, without rowid;

create index artifacts_by_run on artifacts (tenant, run) where run is not null;
