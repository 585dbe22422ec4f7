-- Batches: runs over many units, cut into shards. domain/batch.py has the protocol.
--
-- batches        a row for each run that is one. shards: how many it has, those that came by splitting too.
-- shards         how far each shard is; n is its place among the children of the batch. The next unit of a
--                range is first + succeeded + failed.
-- unit_failures  the units that failed.
-- units          units that did not fit into the run's input, in pages; staged before there is a run.
-- staged         until when those are kept that have no run yet.

create table batches (
  tenant  text not null,
  run     blob not null,
  total   integer,
  size    integer not null,
  shards  integer not null,
  stopped text,
  primary key (tenant, run)
) strict, without rowid;

create table shards (
  tenant    text not null,
  batch     blob not null,
  n         integer not null,
  first     integer not null,
  until     integer,
  succeeded integer not null default 0 check (succeeded >= 0),
  failed    integer not null default 0 check (failed >= 0),
  place     text,
  done      integer not null default 0,
  primary key (tenant, batch, n),
  check (until is null or first + succeeded + failed <= until)
) strict, without rowid;

create table unit_failures (
  tenant text not null,
  batch  blob not null,
  n      integer not null,
  shard  integer not null,
  unit   text not null,
  error  text not null,
  primary key (tenant, batch, n)
) strict, without rowid;

create table units (
  tenant text not null,
  batch  blob not null,
  first  integer not null,
  count  integer not null,
  units  text not null,
  primary key (tenant, batch, first)
) strict;

create table staged (
  tenant text not null,
  batch  blob not null,
  until  integer not null,
  primary key (tenant, batch)
) strict, without rowid;

create index staged_until on staged (until);
