-- What handlers logged: a row for each piece. domain/runlog.py has the protocol.

create table windlass.run_logs (
  tenant  text not null,
  run     uuid not null,
  token   bigint not null,
  first   integer not null,  -- the number of its first line in the attempt
  attempt integer not null,
  lines   json not null,     -- an array of objects
  primary key (tenant, run, token, first)
);
