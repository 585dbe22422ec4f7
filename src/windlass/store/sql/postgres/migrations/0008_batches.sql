-- Batches: runs over many units, cut into shards. domain/batch.py has the protocol.
--
-- batches        a row for each run that is one. shards: how many it has, those that came by splitting too.
-- shards         how far each shard is; n is its place among the children of the batch. The next unit of a
--                range is first + succeeded + failed.
-- unit_failures  the units that failed.
-- units          units that did not fit into the run's input, in pages; staged before there is a run.
-- staged         until when those are kept that have no run yet.

create table windlass.batches (
  tenant  text not null,
  run     uuid not null,
  total   bigint,
  size    integer not null,
  shards  integer not null,
  stopped text,
  primary key (tenant, run)
) with (fillfactor = 50);

create table windlass.shards (
  tenant    text not null,
  batch     uuid not null,
  n         integer not null,
  first     bigint not null,
  until     bigint,
  succeeded bigint not null default 0 check (succeeded >= 0),
  failed    bigint not null default 0 check (failed >= 0),
  place     json,
  done      boolean not null default false,
  primary key (tenant, batch, n),
  check (until is null or first + succeeded + failed <= until)
) with (fillfactor = 50);

create table windlass.unit_failures (
  tenant text not null,
  batch  uuid not null,
  n      bigint not null,
  shard  integer not null,
  unit   json not null,
  error  json not null,
  primary key (tenant, batch, n)
);

create table windlass.units (
  tenant text not null,
  batch  uuid not null,
  first  bigint not null,
  count  integer not null,
  units  json not null,
  primary key (tenant, batch, first)
);

create table windlass.staged (
  tenant text not null,
  batch  uuid not null,
  until  timestamptz not null,
  primary key (tenant, batch)
);

create index staged_until on windlass.staged (until);
