-- Artifacts: what is known of bytes that are kept elsewhere, at `location`.

create table windlass.artifacts (
  tenant       text not null,
  id           uuid not null,
  name         text not null,
  content_type text not null,
  size         bigint not null check (size >= 0),
  sha256       text not null check (length(sha256) = 64),
  location     text not null,
  run          uuid,
  created_at   timestamptz not null,
  primary key (tenant, id)
);

create index artifacts_by_run on windlass.artifacts (tenant, run) where run is not null;
