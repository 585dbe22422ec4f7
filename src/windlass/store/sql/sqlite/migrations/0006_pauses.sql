-- Queues and jobs from which nothing is started for now: see domain/pause.py.

create table pauses (
  tenant text not null,
  kind   text not null check (kind in ('queue', 'job')),
  name   text not null,
  since  integer not null,
  actor  text not null,
  reason text,
  primary key (kind, name, tenant)
) strict, without rowid;

-- Queues and jobs that are paused for every tenant that has anything ready: a claim need not look. One probe
-- beside each tenant for which one is paused: their own rows are not read. A blob comes after all texts.
create view still_work (kind, name) as
select distinct p.kind, p.name from pauses p
 where not exists (
         select 1 from ready r
          where r.tenant < (select min(q.tenant) from pauses q
                             where q.kind = p.kind and q.name = p.name))
   and not exists (
         select 1 from pauses a
          where a.kind = p.kind and a.name = p.name and exists (
            select 1 from ready r
             where r.tenant > a.tenant
               and r.tenant < coalesce((select min(q.tenant) from pauses q
                                         where q.kind = p.kind and q.name = p.name
                                           and q.tenant > a.tenant), x'')));
