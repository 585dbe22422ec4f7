-- What handlers logged: a row for each piece. domain/runlog.py has the protocol.

create table run_logs (
  tenant  text not null,
  run     blob not null,
  token   integer not null,
  first   integer not null,  -- the number of its first line in the attempt
  attempt integer not null,
  lines   text not null,     -- an array of objects
  primary key (tenant, run, token, first)
) strict, without rowid;
