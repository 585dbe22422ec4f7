-- Schedules that are deleted and whose record of slots is longer than one transaction should
-- delete: the rest of it goes piece by piece, whoever comes next goes on with it.

create table windlass.schedule_gone (
  tenant   text not null,
  schedule uuid not null,
  primary key (tenant, schedule)
);
